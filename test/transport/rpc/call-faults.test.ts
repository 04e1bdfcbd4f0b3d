import { beforeEach, describe, expect, test } from "vitest";
import { CaError } from "../../../src/foundation/errors.ts";
import {
  bearer,
  connectJson,
  grpcWeb,
  outcomeOf,
  protocols,
  requestOf,
} from "../../contract/rpc-calls.ts";
import { issuers, issuerTables, type ServiceUnderTest } from "../../contract/service-under-test.ts";
import { type RunningCa, serviceOf, startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { endOf } from "../../testkit/refusal.ts";

const workload = await createWorkload();
const key = await createTokenKey("ES256", "k1");
let running: RunningCa;
let service: ServiceUnderTest;

beforeEach(async () => {
  running = await startCa({ ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(key) }] });
  service = serviceOf(running, key);
});

async function call(protocol = connectJson, headers: Record<string, string> = {}) {
  const request = requestOf(
    protocol,
    { csr: workload.csrPem },
    { ...(await bearer(service)), ...headers },
  );
  return outcomeOf(protocol, await service.send(request));
}

const unavailable = {
  code: "Unavailable",
  message: "certificate authority is temporarily unavailable",
};

test("a message that does not parse is not quoted to anybody", async () => {
  const headers = new Headers({ ...(await bearer(service)), "content-type": "application/proto" });
  const body = Buffer.concat([Buffer.from([0x0a, 0x7f]), Buffer.from("a secret")]);
  const url = "https://ca.test/istio.v1.auth.IstioCertificateService/CreateCertificate";
  const response = await service.send(new Request(url, { method: "POST", headers, body }));
  expect(await response.json()).toEqual({
    code: "internal",
    message: "the message does not parse",
  });
});

test("a message without a declared length is read up to its bound", async () => {
  const headers = new Headers({ ...(await bearer(service)), "content-type": "application/json" });
  let sent = 0;
  const body = new ReadableStream({
    pull: (stream) => {
      sent += 1024;
      stream.enqueue(new Uint8Array(1024).fill(0x20));
      if (sent > 10_000_000) stream.close();
    },
  });
  const url = "https://ca.test/istio.v1.auth.IstioCertificateService/CreateCertificate";
  const init = { method: "POST", headers, body, duplex: "half" } as RequestInit;
  const response = await service.send(new Request(url, init));
  expect(await response.json()).toMatchObject({ code: "resource_exhausted" });
  expect(sent).toBeLessThan(200_000);
});

describe("a CA that cannot sign", () => {
  test.each<[string, string, () => unknown]>([
    ["its store is empty", "no-signing-authority", () => {}],
    [
      "no record opens",
      "no-signing-authority",
      () => running.store.put({ kind: "authority", id: "junk", value: "junk" }),
    ],
    [
      "its store is down",
      "store-unreachable",
      () => {
        running.store.outage = new Error("down");
      },
    ],
  ])("answers Unavailable when %s", async (_, reason, arrange) => {
    await arrange();
    for (const protocol of protocols) expect(await call(protocol)).toEqual(unavailable);
    const audits = service.takeAudits();
    expect(audits).toHaveLength(protocols.length);
    for (const audit of audits) expect(audit).toMatchObject({ outcome: "refused", reason });
  });
});

describe("a fault", () => {
  const secret = "secret of the fault";

  beforeEach(async () => {
    await running.found();
  });

  const breaking = (error: unknown) =>
    Object.assign(running.certificateAuthority.issuance, {
      identityPolicy: () => {
        throw error;
      },
    });

  test.each(protocols)("is an internal error without its message over $name", async (protocol) => {
    breaking(new TypeError(secret));
    expect(await call(protocol)).toEqual({ code: "Internal", message: "internal error" });
    expect(service.takeAudits()).toEqual([
      expect.objectContaining({ outcome: "failed", reason: "fault", issuer: issuers.cluster }),
    ]);
  });

  test.each<[string, unknown]>([
    ["a text", secret],
    ["nothing", undefined],
    ["an object", { secret }],
  ])("is an internal error when it is %s", async (_, thrown) => {
    breaking(thrown);
    expect(await call()).toEqual({ code: "Internal", message: "internal error" });
    const [audit] = service.takeAudits();
    expect(audit).toMatchObject({ outcome: "failed", reason: "fault" });
    expect(JSON.stringify(audit)).not.toContain(secret);
  });

  test("has its message cut short in the log", async () => {
    breaking(new Error("x".repeat(100_000)));
    await call();
    expect(JSON.stringify(service.takeAudits()).length).toBeLessThan(1000);
  });
});

describe("a call ends", () => {
  beforeEach(async () => {
    await running.found();
  });

  /** Lets the store answer no more. The promise resolves once the store is asked. */
  function hangStore(): Promise<void> {
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const load = () => {
      resolve();
      return new Promise<never>(() => {});
    };
    Object.assign(running.store, { load });
    return asked;
  }

  test.each(protocols)(
    "at its deadline over $name while the store does not answer",
    async (protocol) => {
      void hangStore();
      const headers = { [protocol.timeoutHeader]: protocol.timeout(100) };
      expect(await call(protocol, headers)).toMatchObject({ code: "DeadlineExceeded" });
      expect(service.takeAudits()).toEqual([
        expect.objectContaining({ outcome: "refused", reason: "request-abandoned" }),
      ]);
    },
  );

  test.each([connectJson, grpcWeb])("over $name when its caller hangs up", async (protocol) => {
    const asked = hangStore();
    const hangUp = new AbortController();
    const request = requestOf(protocol, { csr: workload.csrPem }, await bearer(service));
    const answer = service.send(new Request(request, { signal: hangUp.signal }));
    await asked;
    hangUp.abort();
    await (await answer).arrayBuffer();
    expect(service.takeAudits()).toEqual([
      expect.objectContaining({ outcome: "refused", reason: "request-abandoned" }),
    ]);
  });
});

describe("a body", () => {
  function watchedBody() {
    const body = { reads: 0, stream: new ReadableStream<Uint8Array>() };
    body.stream = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          body.reads++;
          controller.enqueue(new Uint8Array([0x20]));
        },
      },
      { highWaterMark: 0 },
    );
    return body;
  }

  test.each(protocols)("of an unauthenticated caller is not read over $name", async (protocol) => {
    const body = watchedBody();
    const request = requestOf(protocol, body.stream, { authorization: "Bearer junk" });
    const call = async () => outcomeOf(protocol, await service.send(request));
    expect(await endOf(service, call)).toBe("Unauthenticated credential-rejected form");
    expect(body.reads).toBe(0);
  });

  test.each(protocols)(
    "with too long a content length is not read over $name",
    async (protocol) => {
      const body = watchedBody();
      const headers = { ...(await bearer(service)), "content-length": "65537" };
      const request = requestOf(protocol, body.stream, headers);
      expect(await outcomeOf(protocol, await service.send(request))).toMatchObject({
        code: "ResourceExhausted",
      });
      expect(body.reads).toBe(0);
    },
  );
});

describe("a connection that breaks in the middle of a body", () => {
  test.each(protocols)("gets no certificate over $name, and leaves one event", async (protocol) => {
    await running.found();
    const chunks = [protocol.encode({ csr: workload.csrPem }).subarray(0, 200)];
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const chunk = chunks.shift();
        if (chunk) controller.enqueue(chunk);
        else controller.error(new Error("connection reset"));
      },
    });
    const request = requestOf(protocol, body, await bearer(service));
    expect(await outcomeOf(protocol, await service.send(request))).toHaveProperty("code");
    const detail = expect.stringMatching(/^refused by the RPC layer: HTTP \d+, code \w+$/);
    expect(service.takeAudits()).toMatchObject([
      { outcome: "refused", reason: "rpc-malformed", detail },
    ]);
  });
});

test("the exact reason of a refusal goes to the log, and the public message to the caller", async () => {
  const refusal = { reason: "no-signing-authority", why: "x" } as const;
  const authenticate = () => {
    running.pass(2);
    return Promise.reject(new CaError(refusal, "exact reason"));
  };
  Object.assign(running.certificateAuthority, { authenticate });
  expect(await call()).toEqual(unavailable);
  expect(service.takeAudits()).toMatchObject([
    { reason: "no-signing-authority", detail: "exact reason", durationMilliseconds: 2000 },
  ]);
});
