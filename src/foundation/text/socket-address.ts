/** A host and a port. An IPv6 address is without its brackets. */
export interface SocketAddress {
  readonly host: string;
  readonly port: number;
}

const form = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]*)):(0|[1-9][0-9]{0,4})$/i;

/** A host as it stands before a port or in a URL: an IPv6 address in brackets. */
export const bracketed = (host: string): string => (host.includes(":") ? `[${host}]` : host);

/** Parses `host:port` or `[IPv6]:port`. */
export function parseSocketAddress(text: string): SocketAddress | undefined {
  const address = parseListenAddress(text);
  return address?.host === undefined ? undefined : { ...address, host: address.host };
}

/** Parses an address to listen on: also `:port`, which is every address of the machine. */
export function parseListenAddress(
  text: string,
): { readonly host?: string; readonly port: number } | undefined {
  const [, ipv6, name, digits] = form.exec(text) ?? [];
  const port = Number(digits ?? Number.NaN);
  const host = ipv6 ?? name;
  if (!(port <= 65_535)) return undefined;
  return host ? { host, port } : { port };
}
