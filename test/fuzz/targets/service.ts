import { X509Certificate } from "node:crypto";
import { Code, createContextValues } from "@connectrpc/connect";
import { createCertificatePath } from "../../../src/transport/http/routes.ts";
import { audited, statusCodeOf } from "../../../src/transport/rpc/audited-call.ts";
import {
  createCertificateFallback,
  createCertificateService,
} from "../../../src/transport/rpc/certificate-service.ts";
import { requestBody } from "../../../src/transport/rpc/request-body.ts";
import type { RpcRequest, RpcResponse, RpcService } from "../../../src/transport/rpc/rpc.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
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

const ca = await startCa({ ISSUERS: [{ issuer: issuerName, jwks: issuerJwks }] });
await ca.found();

const platform = { hasTrailers: true };
const wholeService = createCertificateService(ca.certificateAuthority, platform);
const fallback = audited(
  ca.certificateAuthority,
  createCertificateFallback(ca.certificateAuthority, platform),
);

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

/** The head and body of a call; what HTTP itself refuses is not among them. */
export interface WireCall {
  readonly method: string;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
}

/**
 * Sends a call over the fast path, over the fallback and through the routes of fetch, and compares the
 * answers. Each must leave one audit event without a fault, and may certify the one key with the one
 * identity.
 *
 * @returns The outcome over the fast path.
 */
export async function judgeCall(call: WireCall): Promise<string> {
  const fast = await outcomeOf(() => answer(wholeService, call));
  const slow = await outcomeOf(() => answer(fallback, call));
  const isTimed = [fast, slow].includes("DeadlineExceeded");
  requireThat(
    isTimed || alike(fast) === alike(slow),
    `the fast path answers ${fast}, the fallback ${slow}`,
  );
  if (!/^application\/grpc(?:$|[+;])/i.test(call.headers.get("content-type") ?? "")) {
    const routed = await outcomeOf(() => answerByRoutes(call));
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

async function outcomeOf(send: () => Promise<Answer>): Promise<string> {
  ca.log.audits.length = 0;
  const { octets, code } = await send();
  requireAudited();
  const leaf = leafIn(octets);
  requireThat(
    (leaf !== undefined) === (code === "OK"),
    `answered ${code} ${leaf ? "with" : "without"} a certificate`,
  );
  if (!leaf) return code;
  requireRightful(leaf);
  return "issued";
}

function requireAudited(): void {
  const { audits, operations } = ca.log;
  requireThat(audits.length <= 1, "left more than one audit event");
  const fault = audits.find(({ outcome }) => outcome === "failed");
  if (fault) throw new WrongAnswer(`a fault of the service: ${JSON.stringify(fault)}`);
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

async function answer(service: RpcService, call: WireCall): Promise<Answer> {
  const request = toRequest(call);
  const response = await service(toRpc(request));
  requireThat(ca.log.audits.length === 1, "left no audit event");
  return { octets: response.octets, code: codeName(response) };
}

async function answerByRoutes(call: WireCall): Promise<Answer> {
  const response = await ca.app.fetch(toRequest(call));
  const octets = new Uint8Array(await response.arrayBuffer());
  const { status, headers } = response;
  return { octets, code: codeName({ status, header: Object.fromEntries(headers), octets }) };
}

function codeName(response: RpcResponse): string {
  const code = statusCodeOf(response);
  return code === undefined ? "OK" : (Code[code] ?? String(code));
}

const url = `https://ca.test${createCertificatePath}`;

function toRequest({ method, headers, body }: WireCall): Request {
  const hasBody = method !== "GET" && method !== "HEAD";
  return new Request(url, { method, headers, ...(hasBody && { body }) });
}

const toRpc = (request: Request): RpcRequest => ({
  httpVersion: "2",
  method: request.method,
  url: request.url,
  header: request.headers,
  headers: () => request.headers,
  body: () => requestBody(request),
  signal: request.signal,
  contextValues: createContextValues(),
});
