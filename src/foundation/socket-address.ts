import { Host } from "./addresses.ts";

/** A host and a port. An IPv6 address is without its brackets. */
export interface SocketAddress {
  readonly host: string;
  readonly port: number;
}

const pattern = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]*)):(0|[1-9][0-9]{0,4})$/i;

/** Parses and formats addresses of servers. */
export const SocketAddress = {
  /**
   * The host at which this machine reaches its own server, given the host on which the server listens: empty, `0.0.0.0`
   * and `::` mean every address.
   */
  loopbackOf(host: string): string {
    if (host === "" || host === "0.0.0.0") return "127.0.0.1";
    return host === "::" ? "::1" : host;
  },

  /** The address on which a server listens, as `host:port`. */
  format: ({ address, port }: { address: string; port: number }): string =>
    `${Host.bracketed(address)}:${port}`,

  /** Parses `host:port` or `[IPv6]:port`. @returns `undefined` for any other text. */
  parse(text: string): SocketAddress | undefined {
    const address = SocketAddress.parseListening(text);
    return address?.host === undefined ? undefined : { ...address, host: address.host };
  },

  /** Parses an address to listen on: also `:port`, which is every address of the machine. */
  parseListening(text: string): { readonly host?: string; readonly port: number } | undefined {
    const [, ipv6, name, digits] = pattern.exec(text) ?? [];
    const port = Number(digits ?? Number.NaN);
    const host = ipv6 ?? name;
    if (!(port <= 65_535)) return undefined;
    return host ? { host, port } : { port };
  },
};
