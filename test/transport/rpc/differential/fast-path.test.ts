import { Readable } from "node:stream";
import { beforeAll, describe, expect, test } from "vitest";
import type { Caller } from "../../../../src/authn/caller.ts";
import { IstioCertificateService } from "../../../../src/gen/istio/v1/auth/ca_pb.ts";
import { bodyOf } from "../../../../src/node/http/http-exchange.ts";
import type { CertificateAuthority } from "../../../../src/transport/certificate-authority.ts";
import {
  createCertificateService,
  issuingFallback,
} from "../../../../src/transport/rpc/certificate-service.ts";
import { fastPathFor } from "../../../../src/transport/rpc/fast-path.ts";
import {
  audited,
  createCertificate,
} from "../../../../src/transport/rpc/internal/issuing-calls.ts";
import type { RpcRequest, RpcService } from "../../../../src/transport/rpc/rpc.ts";
import { issuers, issuerTables, origin, rpcPath } from "../../../contract/service-under-test.ts";
import type { RunningCa } from "../../../testkit/ca/running-ca.ts";
import { startSigningCa } from "../../../testkit/ca/tainted-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../../testkit/callers/tokens.ts";
import { createWorkload } from "../../../testkit/callers/workload.ts";
import {
  contentTypes,
  type DifferentialCall,
  messageOf,
  type Sample,
  wire,
} from "./differential-call.ts";
import { frameCalls } from "./frame-calls.ts";
import { headerCalls } from "./header-calls.ts";
import { intendedDifferences, intendedFastWeb, intendedFields } from "./intended-differences.ts";
import { messageCalls } from "./message-calls.ts";
import { type Observation, observe } from "./observation.ts";
import { outcomeCalls } from "./outcome-calls.ts";
import { timeoutCalls } from "./timeout-calls.ts";

const calls = [...messageCalls, ...frameCalls, ...timeoutCalls, ...headerCalls, ...outcomeCalls];
const platform = { hasTrailers: true };

let running: RunningCa;
let csrPem: string;
let token: string;
let known: Caller;

beforeAll(async () => {
  const key = await createTokenKey("ES256", "k1");
  running = await startSigningCa({ ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(key) }] });
  ({ csrPem } = await createWorkload());
  token = await mintAccountToken(key, issuers.cluster, "foo:bar", running.now());
  const headers = new Headers({ authorization: `Bearer ${token}` });
  known = await running.certificateAuthority.authenticate({ headers }, running.now());
});

const serviceOf = (ca: CertificateAuthority) => createCertificateService(ca, platform);
const fallbackOf = (ca: CertificateAuthority) =>
  audited(
    ca,
    issuingFallback(
      ca,
      platform,
      IstioCertificateService.method.createCertificate,
      createCertificate,
    ),
  );

function requestOf(call: DifferentialCall): { request: RpcRequest; sample: Sample } {
  const { protocol, method = "POST", query = "", contentType, headers = [] } = call;
  const caller = new AbortController();
  if (call.hasHungUp) caller.abort();
  const sample = { csrPem, known, hangUp: () => caller.abort() };
  const header = new Headers();
  if (contentType !== null) header.set("content-type", contentType ?? contentTypes[protocol]);
  for (const [name, value] of headers) header.append(name, value);
  if (!header.has("authorization")) header.set("authorization", `Bearer ${token}`);
  const chunks = call.body?.(sample) ?? [wire[protocol](messageOf(sample))];
  const body = async function* () {
    yield* chunks;
  };
  const request: RpcRequest = {
    httpVersion: "2.0",
    method,
    url: `${origin}${rpcPath}${query}`,
    header,
    headers: () => header,
    signal: caller.signal,
    peer: {},
    body: async () => (await bodyOf(Readable.from(body()), {}, () => {}))(),
  };
  return { request, sample };
}

async function observed(
  call: DifferentialCall,
  create: (ca: CertificateAuthority) => RpcService,
): Promise<Observation> {
  const { request, sample } = requestOf(call);
  const own = running.certificateAuthority;
  const authenticate = call.authenticate?.(sample) ?? own.authenticate;
  const response = await create({ ...own, authenticate })(request);
  return observe(response, running.log.audits.splice(0));
}

/** The names of the fields in which two answers differ. */
function differing(a: Observation, b: Observation): string[] {
  const fields = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...fields].filter((field) => a[field] !== b[field]).toSorted();
}

test("every call has a name of its own", () => {
  const names = calls.map(({ protocol, name }) => `${protocol}: ${name}`);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});

describe("the fast path answers as Connect does", () => {
  test.each(calls)("$protocol: $name", async (call) => {
    expect(fastPathFor(requestOf(call).request, platform) !== undefined).toBe(
      call.isFast !== false,
    );
    const fast = await observed(call, serviceOf);
    const fallback = await observed(call, fallbackOf);
    expect(differing(fast, fallback)).toEqual(intendedFields(intendedDifferences, call, fast));
  });
});

const webTypes = ["application/grpc-web", "application/grpc-web+proto"];
const webCalls = calls
  .filter(({ isFast, protocol }) => isFast !== false && protocol === "gRPC")
  .map((call, i) => ({ ...call, contentType: webTypes[i % 2] ?? "" }));

describe("the fast path answers over gRPC-Web as Connect does", () => {
  test.each(webCalls)("$contentType: $name", async (call) => {
    const { request } = requestOf(call);
    expect(fastPathFor(request, { hasTrailers: false })).toBeDefined();
    const fast = await observed(call, serviceOf);
    const fallback = await observed(call, fallbackOf);
    expect(differing(fast, fallback)).toEqual(intendedFields(intendedFastWeb, call, fast));
  });
});

test.each([
  ...["application/grpc-web-text", "application/grpc-web-text+proto", "application/grpc-web+json"],
  ...[
    "Application/Grpc-Web",
    "application/grpc-web+proto; charset=utf-8",
    "application/grpc-websocket",
  ],
])("leaves gRPC-Web in another form to Connect: %s", (contentType) => {
  const { request } = requestOf({ name: "", protocol: "gRPC", isFast: false, contentType });
  expect(fastPathFor(request, platform)).toBeUndefined();
});

test.each(
  calls.filter(
    ({ isFast, protocol, contentType, headers }) =>
      isFast === false &&
      protocol === "gRPC" &&
      contentType === undefined &&
      headers?.every(([name]) => name !== "content-type"),
  ),
)("leaves gRPC-Web in another form to Connect: $name", (call) => {
  const { request } = requestOf({ ...call, contentType: "application/grpc-web+proto" });
  expect(fastPathFor(request, platform)).toBeUndefined();
});

test.each(intendedDifferences)(
  "each call of an intended difference is one of these: $fields",
  ({ calls: named }) => {
    const names = calls.map(({ name }) => name);
    const unknown =
      typeof named === "function" ? [] : named.filter((name) => !names.includes(name));
    expect(unknown).toEqual([]);
  },
);
