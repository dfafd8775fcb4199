// What goes wrong, as one kind of error with a code to tell the causes apart.

/** edgert's statuses by their number, from -1 down. */
const STATUSES = [
  'OUT_OF_MEMORY', 'INVALID_ARGUMENT', 'NOT_FOUND', 'DAMAGED', 'UNSUPPORTED',
  'PROGRAM_FAILED', 'OUT_OF_RANGE', 'IO', 'DEVICE_FAILED', 'LIMIT', 'CANCELLED', 'TIMED_OUT',
  'WRONG_ANSWER', 'PENDING', 'UNTRUSTED',
];

export class EdgeError extends Error {
  constructor(code, message, options) {
    super(message, options);
    this.name = 'EdgeError';
    this.code = code;
  }
}

/** The code of one of edgert's statuses. */
export const codeOf = (status) => STATUSES[-status - 1] ?? 'DEVICE_FAILED';

/** Anything thrown, as an EdgeError with that code. */
export function asEdgeError(error, code, message) {
  if (error instanceof EdgeError) return error;
  return new EdgeError(code, `${message}: ${error?.message ?? error}`, { cause: error });
}
