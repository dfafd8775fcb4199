"""What a program computes, as frozen descriptions that know no device."""
