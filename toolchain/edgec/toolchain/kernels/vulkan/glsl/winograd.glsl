// The points at which polynomials are multiplied: 0, NEAR, -NEAR, FAR, -FAR and infinity. These
// keep more digits than the 1 and 2 that are usual: their squares are 1/2 and 2.
const float NEAR = 0.70710678118654752;
const float FAR = 1.41421356237309505;
