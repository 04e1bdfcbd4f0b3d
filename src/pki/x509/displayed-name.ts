import type { Bytes } from "../encoding/bytes.ts";
import { attributesOf, decoded } from "./internal/distinguished-name.ts";

/** The attributes of RFC 4514 §3 that authorities have, by the last octet of their type (2.5.4.x). */
const shortNames: Readonly<Record<number, string>> = {
  3: "CN",
  6: "C",
  7: "L",
  8: "ST",
  10: "O",
  11: "OU",
};

const longestText = 200;

/**
 * Formats a Name for a person, such as `O=cluster.local`, in the order of its octets. Attributes of other types are
 * left out, and it is cut at 200 characters. It is for display only, because two different names may look alike.
 *
 * @throws DerError
 */
export function displayedName(der: Bytes): string {
  const parts = attributesOf(der)
    .flat()
    .map(({ type, value }) => {
      const isShort = type.length === 3 && type[0] === 0x55 && type[1] === 0x04;
      const shortName = isShort ? shortNames[type[2] ?? 0] : undefined;
      return shortName && `${shortName}=${decoded(value)}`;
    });
  return parts
    .filter((part) => part !== undefined)
    .join(", ")
    .slice(0, longestText);
}
