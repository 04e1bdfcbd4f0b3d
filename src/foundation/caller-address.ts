/** The addresses and networks by which limits count callers. */
export const CallerAddress = {
  /**
   * The address that limits count by: an IPv4 address, or the /64 of an IPv6 address. One host usually has
   * a whole /64 to itself (RFC 6177 §2). Empty for no address.
   */
  of(remoteAddress: string | undefined): string {
    if (remoteAddress === undefined) return "";
    const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(remoteAddress) ?? [];
    if (mapped !== undefined) return mapped;
    return remoteAddress.includes(":") ? prefixOf(remoteAddress) : remoteAddress;
  },

  /** The address of a caller behind a gateway. All callers behind one gateway are of one network. */
  behind: (proxy: string, address: string): string => `${address}${behind}${proxy}`,

  /** Whether a network that {@link CallerAddress.networkOf} returned is that of a gateway. */
  isBehindGateway: (network: string): boolean => network.startsWith(behind),

  /** The network of an address that {@link CallerAddress.of} returned: the /24 of IPv4, or the /48 of IPv6, which one site usually has (RFC 6177 §2). */
  networkOf(address: string): string {
    const at = address.indexOf(behind);
    if (at >= 0) return address.slice(at);
    const [, ipv4] = /^(\d+\.\d+\.\d+)\.\d+$/.exec(address) ?? [];
    if (ipv4 !== undefined) return `${ipv4}.0/24`;
    const [, ipv6] = /^((?:[^:]*:){2}[^:]*):[^:]*::\/64$/.exec(address) ?? [];
    return ipv6 === undefined ? address : `${ipv6}::/48`;
  },
};

const behind = " behind ";

function prefixOf(address: string): string {
  const [withoutZone = ""] = address.split("%", 1);
  const [head = "", tail] = withoutZone.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail ? tail.split(":") : [];
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length;
  const groups = [...before, ...Array<string>(Math.max(0, zeros)).fill("0"), ...after];
  return `${groups.slice(0, 4).join(":")}::/64`;
}
