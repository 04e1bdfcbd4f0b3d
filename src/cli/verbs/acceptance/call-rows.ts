import { generateKeyPairSync, sign } from "node:crypto";
import { Code } from "@connectrpc/connect";
import { createClient } from "../../../client/client.ts";
import { FetchError } from "../../../foundation/fetch.ts";
import { jsonIn, Members } from "../../../foundation/json-members.ts";
import { Semaphore } from "../../../foundation/shared-work.ts";
import { Base64 } from "../../../pki/encoding/base64.ts";
import { Validity } from "../../../pki/x509/validity.ts";
import { isSkewed } from "../cluster/cluster-check.ts";
import { type Deployed, newSubject, type Protocol } from "./deployed.ts";
import { attention, broken, good, type Measurement, type Row, skipped } from "./row.ts";

/**
 * Makes the rows that ask for certificates: over each protocol, and with credentials that the CA must refuse.
 * @param refused More tokens that the CA must refuse.
 */
export const callRows = (refused: readonly string[]): readonly Row[] => [
  protocolRow("connect", "Connect", "Rampart's own client and agents that say so speak it."),
  protocolRow("grpc-web", "gRPC-Web", "A gateway and agents before a Worker speak it."),
  protocolRow("grpc", "Native gRPC", "istio-agent and ztunnel speak nothing else."),
  {
    name: "clock",
    expect:
      "The clocks of the CA, of what answers for it and of this machine differ by 30 s at most",
    why: "Beyond a minute of skew, the CA refuses tokens that are good.",
    page: "rampart docs troubleshoot",
    measure: measureClock,
  },
  {
    name: "renewal",
    expect:
      "The client library gets another certificate for a new key, under a root of /bundle.json",
    why: "Every workload does this in the middle of the life of its certificate.",
    page: "rampart docs client",
    measure: measureRenewal,
  },
  ...Object.entries(forgeries).map(([name, forge]) => refusalRow(name, forge)),
  ...refused.map((token, i) => refusalRow(`token-refused-${i + 1}`, () => token)),
  {
    name: "request-size",
    expect: "The CA itself answers a request of 16 KiB",
    why: "A limit in front that is lower than the CA's 64 KiB refuses long keys, with an answer that clients repeat.",
    page: "rampart docs wire",
    async measure({ request, parts: { token } }) {
      const csr = "x".repeat(16 * 1024);
      const answer = await request({ protocol: "grpc-web", csr, token });
      if (answer?.code === Code.InvalidArgument)
        return good("the CA read it, and refused its content");
      return broken(answer?.said ?? "the CA took it for a request");
    },
  },
];

/** Makes the row of many calls at once, some of which may exceed a quota. It is skipped if `calls` is `undefined`. */
export const stormRow = (calls: number | undefined): Row => ({
  name: "storm",
  expect:
    "The CA answers every call, with a certificate, or by a quota that says when to come again",
  why: "A mesh that restarts asks for all its certificates at once. Without a wait, clients repeat at once.",
  page: "rampart docs scale",
  measure: (deployed) =>
    calls === undefined
      ? skipped("nobody has confirmed it: answer the question, or add --yes")
      : measureStorm(deployed, calls),
});

function protocolRow(protocol: Protocol, name: string, why: string): Row {
  const isEverywhere = protocol !== "grpc";
  return {
    name: protocol,
    expect: `${name} gets a certificate for this identity${isEverywhere ? "" : ", where the platform serves it"}`,
    why,
    page: "rampart docs wire",
    async measure(deployed) {
      try {
        const { validToDate } = await deployed.issue(protocol);
        const took = Math.round(deployed.latencies.get(protocol)?.[0] ?? 0);
        return good(`${deployed.identity}, until ${validToDate.toISOString()}, in ${took} ms`);
      } catch (error) {
        const isServed = isEverywhere || deployed.parts.platform === "serve";
        if (isServed || error instanceof FetchError === false) throw error;
        return skipped(`not served here, so a gateway is needed: ${error.message}`);
      }
    },
  };
}

async function measureClock(deployed: Deployed): Promise<Measurement> {
  const before = deployed.clock().getTime();
  const { headers } = await deployed.ask("/healthz");
  const middle = (before + deployed.clock().getTime()) / 2;
  const skews = { "what answers": (Date.parse(headers.get("date") ?? "") - middle) / 1000 };
  if (deployed.identity !== undefined) {
    const { validFromDate: from, validToDate: until } = await deployed.issue("connect");
    const life = until.getTime() - from.getTime();
    const backdated = Math.min(Validity.backdateSeconds * 1000, life / 11);
    const ahead = from.getTime() + backdated - deployed.clock().getTime();
    Object.assign(skews, { "the CA": ahead / 1000 });
  }
  const known = Object.entries(skews).filter(([, seconds]) => !Number.isNaN(seconds));
  if (known.length === 0) return skipped("no answer shows a time");
  const said = known.map(([whose, by]) => `${whose}: ${by > 0 ? "+" : ""}${Math.round(by)} s`);
  const isWrong = known.some(([, seconds]) => isSkewed(Math.round(seconds)));
  return (isWrong ? broken : good)(`${said.join(", ")}, beside this machine`);
}

async function measureRenewal({ parts, identity }: Deployed): Promise<Measurement> {
  if (identity === undefined) return skipped("there was no first certificate");
  const { spiffeId, notAfter } = await createClient({ ...parts, token: () => parts.token }).issue();
  return (spiffeId === identity ? good : broken)(`${spiffeId}, until ${notAfter.toISOString()}`);
}

/** Turns a good credential into one that the CA must refuse, or into none (`undefined`). */
type Forge = (token: string) => string | undefined;

const encoded = (members: Members): string =>
  Buffer.from(JSON.stringify(members)).toString("base64url");
const decoded = (part: string): Members => Members.of(jsonIn(Base64.parseUrl(part) ?? ""));
const partsOf = (token: string): readonly string[] => token.split(".", 3);

const forgeries: Readonly<Record<string, Forge>> = {
  "token-missing": () => undefined,
  "token-altered": (token) => {
    const [header, payload, signature = ""] = partsOf(token);
    const other = signature.startsWith("A") ? "B" : "A";
    return `${header}.${payload}.${other}${signature.slice(1)}`;
  },
  "token-unsigned": (token) => {
    const [header = "", payload] = partsOf(token);
    return `${encoded({ ...decoded(header), alg: "none" })}.${payload}.`;
  },
  "token-of-another-account": (token) => {
    const [header, payload = "", signature] = partsOf(token);
    const sub = "system:serviceaccount:kube-system:default";
    return `${header}.${encoded({ ...decoded(payload), sub })}.${signature}`;
  },
  "token-of-another-key": (token) => {
    const [header = "", payload] = partsOf(token);
    const signed = `${encoded({ ...decoded(header), alg: "ES256" })}.${payload}`;
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const key = { key: privateKey, dsaEncoding: "ieee-p1363" as const };
    return `${signed}.${sign("sha256", Buffer.from(signed), key).toString("base64url")}`;
  },
};

const refusalRow = (name: string, forge: Forge): Row => ({
  name,
  expect: "The CA answers unauthenticated",
  why: "Whoever gets a certificate with such a token becomes this workload, or another.",
  page: "rampart docs endpoints",
  async measure({ request, parts }) {
    const { csr } = await newSubject();
    const answer = await request({ protocol: "grpc-web", csr, token: forge(parts.token) });
    if (!answer) return broken("THE CA ACCEPTED IT");
    return (answer.code === Code.Unauthenticated ? good : attention)(answer.said);
  },
});

/** Calls under way at once. */
const callsAtOnce = 16;

async function measureStorm({ request, parts }: Deployed, calls: number): Promise<Measurement> {
  const { csr } = await newSubject();
  const permits = new Semaphore(callsAtOnce);
  const one = () => permits.run(() => request({ protocol: "connect", csr, token: parts.token }));
  const answers = await Promise.all(Array.from({ length: calls }, one));
  const refused = answers.filter((answer) => answer !== undefined);
  const byQuota = refused.filter(({ code }) => code === Code.ResourceExhausted);
  const [other] = refused.filter(({ code }) => code !== Code.ResourceExhausted);
  const others = refused.length - byQuota.length;
  const certificates = `${calls - refused.length} certificates of ${calls} calls, ${callsAtOnce} at once`;
  if (other) return broken(`${certificates}; ${others} failed: ${other.said}`);
  if (!byQuota.every(({ hasWait }) => hasWait))
    return broken(`${certificates}; refusals of the quota name no wait`);
  return good(`${certificates}; turned away by the quota, with a wait: ${byQuota.length}`);
}
