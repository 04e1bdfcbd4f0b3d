/** A label in the preferred syntax of RFC 1123 §2.1, in lower case, such as the name of a namespace. */
export const dnsLabel: RegExp = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Whether the text is a host name in the preferred syntax (RFC 1034 §3.5 as changed by RFC 1123 §2.1), in
 * lower case. Addresses and wildcards are not: a certificate names the hosts that serve.
 */
export function isDnsName(text: string): boolean {
  const labels = text.split(".");
  const isAddress = /^[0-9]+$/.test(labels.at(-1) ?? "");
  return text.length <= 253 && labels.every((part) => dnsLabel.test(part)) && !isAddress;
}
