import { X509Certificate } from "node:crypto";
import { Code } from "@connectrpc/connect";
import { IstioCertificateService } from "../../../src/gen/istio/v1/auth/ca_pb.ts";
import { IssuingPath } from "../../../src/transport/http/paths.ts";
import { rpcRequestOf } from "../../../src/transport/http/routes.ts";
import {
  createCertificateService,
  issuingFallback,
} from "../../../src/transport/rpc/certificate-service.ts";
import { audited, createCertificate } from "../../../src/transport/rpc/internal/issuing-calls.ts";
import type { RpcRequest, RpcResponse, RpcService } from "../../../src/transport/rpc/rpc.ts";
import { statusCodeOf } from "../../../src/transport/rpc/status-code.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { csrPem } from "../../testkit/pki/csr.ts";
import { requestInfo, signedRequest, workloadKeys } from "../corpus/requests.ts";
import {
  account,
  accountClaims,
  issuerJwks,
  issuerName,
  signedToken,
  tokenSigners,
} from "../corpus/tokens.ts";
import { requireThat, WrongAnswer } from "./target.ts";

export const ca: RunningCa = await startCa({
  ISSUERS: [
    { issuer: issuerName, jwks: issuerJwks, jwt_audiences: ["sts.test", "https://*.test"] },
  ],
  JWT_ISSUER: "https://ca.test",
});
await ca.rotate();

const platform = { hasTrailers: true };

/** A path of the CA: the services that answer it alike, and what they may issue. */
export interface Door {
  readonly path: string;
  readonly services: readonly RpcService[];
  /** Whether an answer has what was asked for. @throws WrongAnswer if it is not the caller's. */
  readonly isIssued: (octets: Uint8Array, call: WireCall) => Promise<boolean>;
}

/** The door of certificates: the fast path, and the fallback. */
const certificates: Door = {
  path: IssuingPath.createCertificate,
  services: [
    createCertificateService(ca.certificateAuthority, platform),
    audited(
      ca.certificateAuthority,
      issuingFallback(
        ca.certificateAuthority,
        platform,
        IstioCertificateService.method.createCertificate,
        createCertificate,
      ),
    ),
  ],
  isIssued: async (octets) => {
    const leaf = leafIn(octets);
    if (leaf) requireRightful(leaf);
    return leaf !== undefined;
  },
};

const [key] = workloadKeys;
const [signer] = tokenSigners.slice(1);
if (!key || !signer) throw new Error("an empty corpus");

/** The only CSR that hostile calls can hold. */
export const corpusCsr: string = csrPem(signedRequest(key, requestInfo(key.spki)));

/** A token that the service accepts. */
export const corpusToken: string = signedToken(
  signer,
  JSON.stringify(signer.header),
  JSON.stringify(accountClaims),
);

/** What proves the token: nobody may read it in an answer or a log. */
const secret = corpusToken.slice(-40);

/** The head and body of a call; what HTTP itself refuses is not among them. */
export interface WireCall {
  readonly method: string;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
}

/**
 * Sends a call over each service and through the routes of fetch, and compares the answers. Each must leave one
 * audit event without a fault, may say nothing of the token in it, and may issue to the one caller alone.
 *
 * @returns The outcome over the first service.
 */
export async function judgeCall(call: WireCall, door: Door = certificates): Promise<string> {
  const outcomes: string[] = [];
  for (const service of door.services) {
    outcomes.push(await outcomeOf(() => answer(service, call, door), call, door));
  }
  const [fast = "", slow = fast] = outcomes;
  const isTimed = outcomes.includes("DeadlineExceeded");
  requireThat(
    isTimed || alike(fast) === alike(slow),
    `the fast path answers ${fast}, the fallback ${slow}`,
  );
  if (!/^application\/grpc(?:$|[+;])/i.test(call.headers.get("content-type") ?? "")) {
    const routed = await outcomeOf(() => answerByRoutes(call, door), call, door);
    const isIssued = routed === "issued";
    requireThat(
      isTimed || routed === "DeadlineExceeded" || isIssued === (fast === "issued"),
      `the routes answer ${routed}, the fast path ${fast}`,
    );
  }
  return fast;
}

/** Of a call that is malformed in two ways, each path may find the other fault first. No client retries these. */
const malformed: readonly string[] = ["InvalidArgument", "Internal", "Unimplemented"];
const alike = (outcome: string): string => (malformed.includes(outcome) ? "malformed" : outcome);

/** An answer in whole, however it came. */
interface Answer {
  readonly octets: Uint8Array;
  readonly code: string;
}

async function outcomeOf(send: () => Promise<Answer>, call: WireCall, door: Door): Promise<string> {
  ca.log.audits.length = 0;
  const { octets, code } = await send();
  requireAudited();
  requireThat(!Buffer.from(octets).includes(secret), "answered with the caller's token");
  const isIssued = await door.isIssued(octets, call);
  requireThat(
    isIssued === (code === "OK"),
    `answered ${code} ${isIssued ? "with" : "without"} what was asked for`,
  );
  return isIssued ? "issued" : code;
}

function requireAudited(): void {
  const { audits, operations } = ca.log;
  requireThat(audits.length <= 1, "left more than one audit event");
  const fault = audits.find(({ outcome }) => outcome === "failed");
  if (fault) throw new WrongAnswer(`a fault of the service: ${JSON.stringify(fault)}`);
  const isTold = JSON.stringify([audits, operations]).includes(secret);
  requireThat(!isTold, "logged the caller's token");
  operations.length = 0;
}

/** The first certificate in the octets of an answer in any protocol. */
function leafIn(octets: Uint8Array): X509Certificate | undefined {
  const text = Buffer.from(octets).toString("latin1").replaceAll("\\n", "\n");
  const [pem] = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(text) ?? [];
  return pem === undefined ? undefined : new X509Certificate(pem);
}

function requireRightful({ publicKey, subjectAltName }: X509Certificate): void {
  const spki = publicKey.export({ type: "spki", format: "der" });
  requireThat(key !== undefined && spki.equals(key.spki), "certified another public key");
  const identity = `URI:spiffe://cluster.local/ns/${account.namespace}/sa/${account.name}`;
  requireThat(subjectAltName === identity, `certified ${subjectAltName}`);
}

async function answer(service: RpcService, call: WireCall, door: Door): Promise<Answer> {
  const request = toRequest(call, door);
  const response = await service(toRpc(request));
  requireThat(ca.log.audits.length === 1, "left no audit event");
  return { octets: response.octets, code: codeName(response) };
}

async function answerByRoutes(call: WireCall, door: Door): Promise<Answer> {
  const response = await ca.app.fetch(toRequest(call, door));
  const octets = new Uint8Array(await response.arrayBuffer());
  const { status, headers } = response;
  return { octets, code: codeName({ status, header: Object.fromEntries(headers), octets }) };
}

function codeName(response: RpcResponse): string {
  const code = statusCodeOf(response);
  return code === undefined ? "OK" : (Code[code] ?? String(code));
}

function toRequest({ method, headers, body }: WireCall, { path }: Door): Request {
  const hasBody = method !== "GET" && method !== "HEAD";
  return new Request(`https://ca.test${path}`, { method, headers, ...(hasBody && { body }) });
}

const toRpc = (request: Request): RpcRequest => ({
  ...rpcRequestOf(request, {}),
  httpVersion: "2",
});
