import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { type AgentOptions, request } from "node:https";
import tls, { type TLSSocket } from "node:tls";
import { toFetchError } from "../../../foundation/fetch.ts";
import { jsonIn, Members } from "../../../foundation/json-members.ts";
import { EnvironmentProxies } from "../../../program/http/proxies.ts";
import { TlsAgent } from "../../../program/http/tunnel.ts";
import { CompliancePolicy, Handshake } from "../../../program/tls-policy.ts";
import type { DeployedParts } from "./deployed.ts";
import { attention, broken, good, type Measurement, type Row, skipped } from "./row.ts";

/** The rows about the connection: TLS, the proxies in between, and whether the CA answers and is ready. */
export const connectionRows: readonly Row[] = [
  {
    name: "server-certificate",
    expect:
      "The chain leads to a root that you named or that the public knows, and does not end soon",
    why: "A proxy that opens TLS reads every token, and a certificate that ends stops every call.",
    page: "rampart docs production",
    measure: overTls(judgeServerCertificate),
  },
  {
    name: "tls-version",
    expect: "TLS 1.3 is agreed on, and TLS 1.1 is refused",
    why: "Older versions have known attacks, and an edge may serve them unless it is told not to.",
    page: "rampart docs production",
    measure: overTls(judgeVersion),
  },
  {
    name: "tls-group",
    expect: `${CompliancePolicy.postQuantumGroup}, unless the platform has none`,
    why: "Whoever records traffic today may read it once there is a quantum computer.",
    page: "rampart docs post-quantum",
    measure: overTls(({ group }, { platform }) => {
      if (!CompliancePolicy.isOffered()) return skipped("the Node that runs this has none");
      const isFine = group === CompliancePolicy.postQuantumGroup || platform === "lambda";
      return (isFine ? good : attention)(group === "other" ? "a classical group" : group);
    }),
  },
  {
    name: "reachable",
    expect: "/healthz answers 200 and ok",
    why: "Every other row asks the same address.",
    page: "rampart docs endpoints",
    isRequired: true,
    async measure({ ask }) {
      const { status, text } = await ask("/healthz");
      if (status === 200 && text === "ok\n") return good("the CA answers");
      return broken(`something else answers at this address: status ${status}, not a CA's answer`);
    },
  },
  {
    name: "ready",
    expect: "/readyz answers 200, without a reason for attention",
    why: "A CA that is not ready refuses every request.",
    page: "rampart docs troubleshoot",
    async measure({ ask }) {
      const { status, text } = await ask("/readyz");
      const { ready, reasons } = Members.of(jsonIn(text));
      const said = Array.isArray(reasons) ? reasons.join("; ") : "";
      if (typeof ready !== "boolean") return broken(`status ${status}, and no answer of a CA`);
      if (!ready) return broken(`not ready: ${said}`);
      return said === "" ? good("ready") : attention(`ready, and it says: ${said}`);
    },
  },
  {
    name: "path",
    expect: "Nothing stands in between that you do not know of",
    why: "What was measured is this path. Workloads may have another one.",
    page: "rampart docs environment",
    async measure({ ask }) {
      const { headers } = await ask("/healthz");
      const named = marks.flatMap((name) => headers.get(name)?.replace(/^/, `${name}: `) ?? []);
      return good(
        [...EnvironmentProxies.sentences(), ...named].join("; ") ||
          "direct, and nobody names itself",
      );
    },
  },
];

/** The headers by which a proxy or an edge names itself. */
const marks = ["via", "server", "x-cache", "cf-cache-status", "x-amz-cf-pop", "x-served-by"];

const handshakeMilliseconds = 10_000;

/**
 * Makes one connection, and returns facts about it. The server is not verified, because the rows judge it.
 * @throws FetchError if it fails or takes more than 10 seconds.
 */
async function handshake({ url, roots }: DeployedParts, options: AgentOptions = {}) {
  const trusting = { ...(roots !== undefined && { ca: roots }), rejectUnauthorized: false };
  const agent = new TlsAgent({ ...trusting, ...options, keepAlive: false });
  try {
    const signal = AbortSignal.timeout(handshakeMilliseconds);
    const sent = request(`${url}/healthz`, { agent, signal });
    const [{ socket }] = (await once(sent.end(), "response")) as [{ socket: TLSSocket }];
    const facts = {
      certificates: chainOf(socket),
      fault: socket.authorized ? undefined : String(socket.authorizationError),
      version: socket.getProtocol(),
      group: Handshake.groupOf(socket),
    };
    sent.destroy();
    return facts;
  } catch (error) {
    throw toFetchError(error, "did not answer over TLS");
  } finally {
    agent.destroy();
  }
}

type TlsFacts = Awaited<ReturnType<typeof handshake>>;

const longestChain = 8;

/** The chain as it was verified, the leaf first and with the root of this machine, if there is one. */
function chainOf(socket: TLSSocket): readonly X509Certificate[] {
  const chain: X509Certificate[] = [];
  let next = socket.getPeerX509Certificate();
  while (next && chain.length < longestChain) {
    chain.push(next);
    next = next.issuerCertificate;
  }
  return chain;
}

/** Makes the measurement of a row about TLS. It is skipped for an `http:` URL, which leads to this machine. */
function overTls(
  judge: (facts: TlsFacts, parts: DeployedParts) => Measurement | Promise<Measurement>,
): Row["measure"] {
  return async ({ parts }) =>
    parts.url.startsWith("https:")
      ? judge(await handshake(parts), parts)
      : skipped("the URL is of this machine, without TLS");
}

/** The last tenth of a certificate's life, in which it should have been renewed. */
const lastShare = 1 / 10;

function judgeServerCertificate(
  { certificates, fault }: TlsFacts,
  { roots, platform, terminal }: DeployedParts,
): Measurement {
  const [leaf] = certificates;
  const root = certificates.at(-1);
  if (!leaf || !root) return broken("the server shows no certificate");
  const { issuer, validFromDate: from, validToDate: until } = leaf;
  const shown = `issued by ${issuer.replaceAll("\n", ", ")}, until ${until.toISOString()}`;
  if (fault !== undefined)
    return broken(
      `${shown}: not accepted (${fault}); is TLS inspected on the way, or --ca missing?`,
    );
  if (roots === undefined && !isPublic(root))
    return (platform === "serve" ? attention : broken)(
      `${shown}: only this machine's own roots lead to it; TLS may be inspected on the way`,
    );
  const left = until.getTime() - terminal.clock().getTime();
  const isLate = left < (until.getTime() - from.getTime()) * lastShare;
  return isLate ? attention(`${shown}: it ends soon`) : good(shown);
}

const isPublic = ({ fingerprint256 }: X509Certificate): boolean =>
  tls.rootCertificates.some((pem) => new X509Certificate(pem).fingerprint256 === fingerprint256);

const before13 = {
  minVersion: "TLSv1",
  maxVersion: "TLSv1.1",
  ciphers: "ALL:@SECLEVEL=0",
} as const;

async function judgeVersion({ version }: TlsFacts, parts: DeployedParts): Promise<Measurement> {
  const old = await handshake(parts, before13).catch(() => undefined);
  if (old) return attention(`${version}, and ${old.version} is served too`);
  return version === "TLSv1.3" ? good("TLS 1.3; 1.1 is refused") : attention(`${version}`);
}
