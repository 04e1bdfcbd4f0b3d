/** A label in the preferred syntax of RFC 1123 §2.1, in lower case, such as the name of a namespace. */
export const dnsLabel: RegExp = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
