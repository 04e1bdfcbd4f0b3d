/** Whether a text may be a serial number, as any program writes one: with colons, in upper case, with zeros. */
export const mayBeSerialNumber = (text: string): boolean => /^(?:0x)?[0-9a-f: ]{2,64}$/i.test(text);

/** The hexadecimal digits of a serial number or of a part of one, without the zeros that begin it. */
export function serialDigits(text: string): string {
  return text
    .replace(/^0x|[: ]/gi, "")
    .toLowerCase()
    .replace(/^0+(?=.)/, "");
}

/**
 * The form in which every serial number is shown: that of OpenSSL, in lower case.
 *
 * It has whole octets, and no needless zero octet begins it: `01b62f`, not `1b62f`; `8a01`, not `008a01`.
 *
 * @param text A serial number in any spelling, or the content octets of the INTEGER.
 */
export function shownSerialNumber(text: string): string {
  const digits = serialDigits(text);
  return digits.length % 2 === 0 ? digits : `0${digits}`;
}

/** The content octets of the INTEGER that a serial number is, in hexadecimal (X.690 §8.3). */
export function serialContent(text: string): string {
  const octets = shownSerialNumber(text);
  return octets >= "8" ? `00${octets}` : octets;
}
