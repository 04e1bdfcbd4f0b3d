/** A bearer token as an HTTP header can carry it: one line of visible ASCII, of a length that servers accept. */
export const bearerToken: RegExp = /^[\x21-\x7e]{1,16384}$/;
