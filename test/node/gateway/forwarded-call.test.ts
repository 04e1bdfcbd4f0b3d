import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { type Forwarding, forward } from "../../../src/node/gateway/forwarded-call.ts";
import { SlowCalls } from "../../../src/node/gateway/slow-calls.ts";
import { UpstreamRefusal } from "../../../src/node/gateway/upstream.ts";
import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal, tenDays } from "../../testkit/pki/certificates.ts";
import { signClientLeaf } from "../../testkit/pki/client-leaf.ts";

const bar = "spiffe://cluster.local/ns/foo/sa/bar";
const now = new Date("2026-03-02T12:00:00Z");
const { authority, extractablePrivateKey: privateKey } = await NewAuthority.create(
  clusterLocal,
  "EC-P256",
  tenDays,
);
const clientCertificate = await signClientLeaf(
  { certificate: authority.certificate.der, privateKey },
  bar,
);

/** Forwards a call with both credentials, and tells which of them the CA saw. */
async function forwarded(
  codes: readonly (Code | "ok")[],
  at = now,
  credentials = async () => ({ authorization: "Bearer gateway", clusterid: "g" }),
) {
  const outcomes: string[] = [];
  const forwarding = {
    slowCalls: new SlowCalls(),
    credentials,
    ownAuthorization: async () => ({ authorization: "Bearer gateway" }),
    trustDomain: clusterLocal,
    log: createEventRecorder(),
    clock: () => at,
    ended: (outcome: string) => void outcomes.push(outcome),
  } as unknown as Forwarding;
  const call = {
    header: new Headers({ authorization: "Bearer caller" }),
    signal: new AbortController().signal,
    timeoutMs: undefined,
    peer: { clientCertificate },
    message: async () => new Uint8Array(),
  };
  const seen: string[] = [];
  const answers = codes.values();
  const code = await forward(forwarding, call, async (_, { headers }) => {
    seen.push("x-forwarded-client-cert" in headers ? "certificate" : `${headers["authorization"]}`);
    const { value } = answers.next();
    if (value === undefined || value === "ok") return "ok" as const;
    throw new UpstreamRefusal("no", value, 400);
  }).catch((error: unknown) => (error as UpstreamRefusal).code);
  return { seen, code, outcomes };
}

test("a call shows its token where the CA does not take its certificate for a credential", async () => {
  expect(await forwarded([Code.Unauthenticated, "ok"])).toEqual({
    seen: ["certificate", "Bearer caller"],
    code: "ok",
    outcomes: ["answered"],
  });
});

test("any other refusal is the caller's, and its token is not shown", async () => {
  for (const code of [Code.PermissionDenied, Code.InvalidArgument, Code.ResourceExhausted]) {
    const refused = { seen: ["certificate"], code, outcomes: ["refused"] };
    expect(await forwarded([code, "ok"])).toEqual(refused);
  }
});

test("a defect of the gateway's own credential is not hidden behind its callers' tokens", async () => {
  const defect = () => Promise.reject(new TypeError("a defect"));
  const { seen, code, outcomes } = await forwarded(["ok"], now, defect);
  expect([seen, code, outcomes]).toEqual([[], Code.Unavailable, ["failed"]]);
});

test("a certificate that has ended since its connection began is not shown", async () => {
  const { notAfter } = authority.certificate.toBeSigned.validity;
  const { seen } = await forwarded(["ok"], new Date(notAfter.getTime() + 1000));
  expect(seen).toEqual(["Bearer caller"]);
});
