import type { Bytes } from "./bytes.ts";

/** Serial numbers of certificates, in the spellings of other programs and in ours. */
export const SerialNumber = {
  /**
   * Whether a text may be a serial number as some program writes it: 2 to 64 characters, also with colons, in upper case
   * or with zeros.
   */
  mayBe: (text: string): boolean => /^(?:0x)?[0-9a-f: ]{2,64}$/i.test(text),

  /**
   * Converts a serial number that an operator typed to hexadecimal. Go and Python print serial numbers in decimal. One
   * of this CA has 17 octets: at least 39 digits in decimal, and at most 34 in hexadecimal.
   */
  typed: (text: string): string => (/^\d{39,}$/.test(text) ? BigInt(text).toString(16) : text),

  /** The hexadecimal digits of a serial number or of a part of one, without the zeros that begin it. */
  digits(text: string): string {
    return text
      .replace(/^0x|[: ]/gi, "")
      .toLowerCase()
      .replace(/^0+(?=.)/, "");
  },

  /**
   * The form in which every serial number is shown: that of OpenSSL, in lower case.
   *
   * It has whole octets, and no needless zero octet begins it: `01b62f`, not `1b62f`; `8a01`, not `008a01`.
   *
   * @param text A serial number in any spelling, or the content octets of the INTEGER.
   */
  shown(text: string): string {
    const digits = SerialNumber.digits(text);
    return digits.length % 2 === 0 ? digits : `0${digits}`;
  },

  /** The content octets of the INTEGER that a serial number is, in hexadecimal (X.690 §8.3). */
  content(text: string): string {
    const octets = SerialNumber.shown(text);
    return octets >= "8" ? `00${octets}` : octets;
  },

  /**
   * A positive serial number: the 17 content octets of an INTEGER with 128 random bits (RFC 5280 §4.1.2.2
   * allows 20 octets). So many bits never collide, so no serial number is reserved or remembered.
   */
  random(): Bytes {
    if (randomOctetsUsed === randomOctets.length) {
      crypto.getRandomValues(randomOctets);
      randomOctetsUsed = 0;
    }
    const serialNumber = new Uint8Array(17);
    serialNumber[0] = 0x01;
    for (let i = 1; i < serialNumber.length; i++) {
      serialNumber[i] = randomOctets[randomOctetsUsed++] ?? 0;
    }
    return serialNumber;
  },
};

/** Random octets for 64 serial numbers, drawn at once because each draw costs a call. Each octet is used once. */
const randomOctets = new Uint8Array(16 * 64);
let randomOctetsUsed = randomOctets.length;
