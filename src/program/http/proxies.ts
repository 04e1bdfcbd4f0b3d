import {
  BlockList,
  getDefaultAutoSelectFamilyAttemptTimeout,
  isIP,
  setDefaultAutoSelectFamilyAttemptTimeout,
} from "node:net";
import { domainToASCII } from "node:url";
import { OperatorError } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { SocketAddress } from "../../foundation/socket-address.ts";

/** An HTTP proxy, which is asked by CONNECT for a connection to any other server. */
export interface ProxyServer {
  readonly isTls: boolean;
  readonly host: string;
  readonly port: number;
  /** The proxy's URL without user and password, for logs. */
  readonly shown: string;
  /** The value of `proxy-authorization`: Basic (RFC 7617). */
  readonly authorization: string | undefined;
}

/** The server that a connection is for. An IPv6 address has no brackets. */
export interface Destination {
  readonly isTls: boolean;
  readonly host: string;
  readonly port: number;
}

/** Chooses the proxy of a connection; `undefined` for a direct one. */
export type ProxyFor = (destination: Destination) => ProxyServer | undefined;

type Environment = Readonly<Record<string, string | undefined>>;

/** The proxies of this process. */
export const EnvironmentProxies = {
  /**
   * Reads what the environment says, as Go's `httpproxy` does: `HTTPS_PROXY` for TLS, `HTTP_PROXY` for plaintext, and
   * `NO_PROXY` for the servers that are reached without one; each in lower case too. This machine, link-local addresses
   * and the metadata servers of clouds are always reached without one.
   *
   * @throws OperatorError for a value that is no URL of an HTTP proxy. It does not quote the value.
   */
  read(environment: Environment): EnvironmentProxies {
    const secure = proxyIn(environment, "HTTPS_PROXY");
    const plain = proxyIn(environment, "HTTP_PROXY");
    const isExempt = parseExemptions(either(environment, "NO_PROXY"));
    const except = either(environment, "NO_PROXY") && ", except to the servers of NO_PROXY";
    return {
      proxyFor: (destination) => {
        const proxy = destination.isTls ? secure : plain;
        return proxy && !isNear(destination.host) && !isExempt(destination) ? proxy : undefined;
      },
      sentences: [
        ...(secure ? [`TLS goes through ${secure.shown} (HTTPS_PROXY)${except}`] : []),
        ...(plain ? [`HTTP in plaintext goes through ${plain.shown} (HTTP_PROXY)${except}`] : []),
      ],
    };
  },

  /**
   * Sets the proxies of all connections of this process, before the first of them, and gives each address of a server
   * 2.5 seconds or more before Node tries the next. @throws OperatorError as {@link EnvironmentProxies.read}.
   */
  prepare(environment: Environment): void {
    current = EnvironmentProxies.read(environment);
    const usual = getDefaultAutoSelectFamilyAttemptTimeout?.() ?? 0;
    setDefaultAutoSelectFamilyAttemptTimeout?.(Math.max(attemptMilliseconds, usual));
  },

  /** Chooses by what {@link EnvironmentProxies.prepare} has read. Before that, every connection is direct. */
  proxyFor: ((destination) => current.proxyFor(destination)) satisfies ProxyFor,

  /** The {@link EnvironmentProxies.sentences} of what `prepare` has read. */
  sentences: (): readonly string[] => current.sentences,

  /** Logs which connections go through a proxy. */
  log(log: OperationLog): void {
    for (const detail of current.sentences)
      log.operation({ event: "connections-proxied", level: "info", detail });
  },
};

/** The HTTP proxies that the environment names. */
export interface EnvironmentProxies {
  readonly proxyFor: ProxyFor;
  /** Which connections go through which proxy, for logs and reports, without passwords; empty without a proxy. */
  readonly sentences: readonly string[];
}

let current: EnvironmentProxies = { proxyFor: () => undefined, sentences: [] };

/** How long Node tries one address of a server before the next: one family may be dead, and the other slow. */
const attemptMilliseconds = 2_500;

const either = (environment: Environment, name: string): string =>
  environment[name] || environment[name.toLowerCase()] || "";

function proxyIn(environment: Environment, name: string): ProxyServer | undefined {
  const text = either(environment, name);
  return text === "" ? undefined : ProxyServer.parse(text, name);
}

/** Parses proxies. */
export const ProxyServer = {
  /**
   * Parses the URL of a proxy, `http` by default.
   * @param name What names it, for the error.
   * @throws OperatorError for any other text.
   */
  parse(text: string, name: string): ProxyServer {
    const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`);
    const isTls = url?.protocol === "https:";
    if (!url?.hostname || (!isTls && url.protocol !== "http:"))
      throw new OperatorError(
        `${name}: must be http://[user:password@]host[:port], or https for TLS to the proxy; SOCKS is not spoken`,
      );
    const credential = url.username && `${decoded(url.username)}:${decoded(url.password)}`;
    return {
      isTls,
      host: url.hostname.replace(/^\[|\]$/g, ""),
      port: Number(url.port) || (isTls ? 443 : 80),
      shown: `${url.protocol}//${url.host}`,
      authorization: credential ? `Basic ${Buffer.from(credential).toString("base64")}` : undefined,
    };
  },
};

/** Decodes percent-encoding; text that is malformed stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const near = new BlockList();
near.addSubnet("127.0.0.0", 8, "ipv4");
near.addAddress("::1", "ipv6");
// Link-local: a proxy would reach its own machine's metadata server there, and get that machine's credential.
near.addSubnet("169.254.0.0", 16, "ipv4");
near.addSubnet("fe80::", 10, "ipv6");
near.addSubnet("fd00:ec2::", 32, "ipv6");

/** Whether a host is this machine or on its link, where the clouds have their metadata. No proxy is asked for it. */
const isNear = (host: string): boolean =>
  host === "localhost" || host === "metadata.google.internal" || holds(near, host);

const familyOf = (address: string): "ipv4" | "ipv6" => (isIP(address) === 6 ? "ipv6" : "ipv4");

const holds = (list: BlockList, host: string): boolean =>
  isIP(host) !== 0 && list.check(host, familyOf(host));

/** Reads `NO_PROXY`: `*`, addresses, networks (CIDR), `name` with its subdomains, `.name` for subdomains alone. Addresses and names may have a port. */
function parseExemptions(text: string): (destination: Destination) => boolean {
  const rules = text
    .toLowerCase()
    .split(",")
    .map((rule) => rule.trim())
    .filter(Boolean);
  if (rules.includes("*")) return () => true;
  const tests = rules.map(parseRule);
  return ({ host, port }) =>
    tests.some((test) => test(host.toLowerCase().replace(/\.$/, ""), port));
}

type Rule = (host: string, port: number) => boolean;

function parseRule(rule: string): Rule {
  const [network = "", bits = ""] = rule.split("/");
  if (isIP(network) !== 0 && /^\d{1,3}$/.test(bits)) return networkRule(network, Number(bits));
  const { host = rule, port } = SocketAddress.parse(rule) ?? {};
  const matches = hostRule(host.replace(/^\[(.*)\]$/, "$1"));
  return (asked, askedPort) => (port === undefined || port === askedPort) && matches(asked);
}

function networkRule(network: string, bits: number): Rule {
  const list = new BlockList();
  if (bits <= (isIP(network) === 6 ? 128 : 32)) list.addSubnet(network, bits, familyOf(network));
  return (host) => holds(list, host);
}

function hostRule(host: string): (asked: string) => boolean {
  if (isIP(host) !== 0) {
    const list = new BlockList();
    list.addAddress(host, familyOf(host));
    return (asked) => holds(list, asked);
  }
  const name = domainToASCII(host.replace(/^\*?\./, ""));
  const isWithSelf = !/^\*?\./.test(host);
  return (asked) => name !== "" && ((isWithSelf && asked === name) || asked.endsWith(`.${name}`));
}
