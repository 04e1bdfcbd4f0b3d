/** Names that mean something only inside one network (RFC 6761, RFC 6762, RFC 9476, Kubernetes). */
const privateName = /(?:^|\.)(?:localhost|local|internal|svc|lan|home\.arpa)$|\.svc\./;

/** Hosts of URLs, and their addresses. */
export const Host = {
  /**
   * Whether a host may be on the internet: a public address, or a name with a dot that is not reserved for use
   * inside a network. The name is not resolved.
   *
   * @param hostname As `URL` gives it.
   */
  isPublic(hostname: string): boolean {
    const name = hostname.replace(/\.$/, "");
    const address = parseAddress(name);
    return address ? isPublic(address) : name.includes(".") && !privateName.test(name);
  },

  /** Whether a text is an IP address of the public internet; `false` for any other text. */
  isPublicAddress(text: string): boolean {
    const { hostname = "" } = URL.parse(`http://${Host.bracketed(text)}`) ?? {};
    const address = parseAddress(hostname);
    return address !== undefined && isPublic(address);
  },

  /** A host as it is written before a port or in a URL: an IPv6 address gets brackets. */
  bracketed: (host: string): string => (host.includes(":") ? `[${host}]` : host),
};

/** 4 octets of an IPv4 address, or 8 groups of 16 bits of an IPv6 address. */
type Address = readonly number[];

/** Reads the form that `URL` gives every address: dotted decimals, or hexadecimal groups in brackets. */
function parseAddress(hostname: string): Address | undefined {
  if (/^\d+(?:\.\d+){3}$/.test(hostname)) return hostname.split(".").map(Number);
  if (!hostname.startsWith("[")) return undefined;
  const [before = "", after = ""] = hostname.slice(1, -1).split("::");
  const [first, last] = [groupsOf(before), groupsOf(after)];
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
}

const groupsOf = (text: string): readonly number[] =>
  text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));

const isPublic = (address: Address): boolean =>
  address.length === 4 ? isPublicIpv4(address) : isPublicIpv6(address);

type Network = readonly [Address, number];

/** IANA's special-purpose addresses that are not globally reachable, multicast, and what is reserved. */
const privateIpv4: readonly Network[] = [
  [[0, 0, 0, 0], 8],
  [[10, 0, 0, 0], 8],
  [[100, 64, 0, 0], 10],
  [[127, 0, 0, 0], 8],
  [[169, 254, 0, 0], 16],
  [[172, 16, 0, 0], 12],
  [[192, 0, 0, 0], 24],
  [[192, 0, 2, 0], 24],
  [[192, 88, 99, 0], 24],
  [[192, 168, 0, 0], 16],
  [[198, 18, 0, 0], 15],
  [[198, 51, 100, 0], 24],
  [[203, 0, 113, 0], 24],
  [[224, 0, 0, 0], 3],
];

const isPublicIpv4 = (address: Address): boolean =>
  !privateIpv4.some((network) => isWithin(address, network));

const globalUnicast: Network = [[0x2000], 3];

/** Ranges of global unicast that are not public: protocol assignments with Teredo (RFC 4380), and documentation. */
const privateIpv6: readonly Network[] = [
  [[0x2001, 0], 23],
  [[0x2001, 0xdb8], 32],
  [[0x3fff, 0], 20],
];

/** Prefixes before an IPv4 address, and the group at which it begins: mapped, NAT64 and 6to4. */
const embeddings: readonly (readonly [Network, number])[] = [
  [[[0, 0, 0, 0, 0, 0xffff], 96], 6],
  [[[0x64, 0xff9b, 0, 0, 0, 0], 96], 6],
  [[[0x2002], 16], 1],
];

function isPublicIpv6(address: Address): boolean {
  const embedded = embeddings.find(([network]) => isWithin(address, network));
  if (embedded) return isPublicIpv4(ipv4At(address, embedded[1]));
  const isPrivate = privateIpv6.some((network) => isWithin(address, network));
  return isWithin(address, globalUnicast) && !isPrivate;
}

const ipv4At = (address: Address, start: number): Address =>
  address.slice(start, start + 2).flatMap((group) => [group >> 8, group & 0xff]);

function isWithin(address: Address, [prefix, length]: Network): boolean {
  const bits = address.length === 4 ? 8 : 16;
  return prefix.every((element, i) => {
    const unused = bits - Math.min(bits, Math.max(0, length - i * bits));
    return (address[i] ?? 0) >> unused === element >> unused;
  });
}

/** Checks names of hosts by their syntax. Nothing is resolved. */
export const DnsName = {
  /** A label in the preferred syntax of RFC 1123 §2.1, in lower case, such as the name of a namespace. */
  label: /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/,

  /**
   * Whether the text is a host name in the preferred syntax (RFC 1034 §3.5 as changed by RFC 1123 §2.1), in
   * lower case. Addresses and wildcards are not: a certificate names the hosts that serve.
   */
  is(text: string): boolean {
    const labels = text.split(".");
    const isAddress = /^[0-9]+$/.test(labels.at(-1) ?? "");
    return text.length <= 253 && labels.every((part) => DnsName.label.test(part)) && !isAddress;
  },
};

/**
 * Whether a document may be fetched from this URL: over HTTPS, or over HTTP from this machine itself in development.
 * `false` for a URL with a user, a password or a fragment. Other hosts may be private: see {@link Host.isPublic}.
 */
export function isSafeToFetch(url: string): boolean {
  const parsed = URL.parse(url);
  if (!parsed || parsed.username || parsed.password || url.includes("#")) return false;
  const isLoopback = ["127.0.0.1", "localhost", "[::1]"].includes(parsed.hostname);
  return parsed.protocol === "https:" || (parsed.protocol === "http:" && isLoopback);
}
