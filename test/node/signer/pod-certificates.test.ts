import { beforeAll, describe, expect, test } from "vitest";
import type { CertificateAsk } from "../../../src/node/gateway/certificate-source.ts";
import {
  type PodCertificateRequest,
  parsePodCertificateRequest,
} from "../../../src/node/signer/pod-certificate-request.ts";
import {
  type PodCertificates,
  podCertificates,
} from "../../../src/node/signer/pod-certificates.ts";
import { podKeyTypes } from "../../../src/node/signer/signer-configuration.ts";
import { Base64 } from "../../../src/pki/encoding/base64.ts";
import { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { issueFor } from "../../testkit/ca/issue-for-signer.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { createPodKey, podUid } from "../../testkit/callers/pod-key.ts";
import { emptyCsr, podRequestJson } from "../../testkit/kubernetes/certificate-requests.ts";

const trustDomain = TrustDomain.parse("cluster.local") ?? (undefined as never);
const policy = { namespaces: ["shop"], key_types: podKeyTypes, authority: "" };
const signer = { name: "mesh.example.com/workload", maximumSeconds: 86_400, services: [] };

let ca: RunningCa;

beforeAll(async () => {
  ca = await startCa();
  await ca.found();
});

function requestOf(spec: object): PodCertificateRequest {
  const [, request] = parsePodCertificateRequest(podRequestJson(spec)) ?? [];
  if (!request) throw new Error("the request does not parse");
  return request;
}

/** Answers with a CA in this process, and notes what it was asked for. */
function answering(changes: Partial<typeof policy> = {}, maximumSeconds = 86_400) {
  const asks: CertificateAsk[] = [];
  const judge = podCertificates(
    { ...signer, maximumSeconds },
    { ...policy, ...changes },
    trustDomain,
    async (ask) => {
      asks.push(ask);
      return issueFor(ca, ask);
    },
  );
  return { answer: (spec: object) => answerBy(judge, requestOf(spec)), asks };
}

async function answerBy(judge: PodCertificates, request: PodCertificateRequest) {
  const judged = await judge(request);
  return typeof judged === "function" ? judged(ca.now()) : judged;
}

const withCsr = async (kind?: Parameters<typeof emptyCsr>[0]) => ({
  stubPKCS10Request: (await emptyCsr(kind)).base64,
});

describe("a pod gets a certificate", () => {
  test("of its account, without the root, to be refreshed in the middle of its life", async () => {
    const { answer, asks } = answering();
    const status = await answer(await withCsr());
    if (status.type !== "Issued") throw new Error(`${status.type}: ${status.reason}`);
    expect(status.certificateChain.match(/BEGIN CERTIFICATE/g)).toHaveLength(1);
    const [begins, refreshes, ends] = [
      status.notBefore,
      status.beginRefreshAt,
      status.notAfter,
    ].map((each) => each.getTime() / 1000);
    expect((ends ?? 0) - (begins ?? 0)).toBe(86_400);
    expect((refreshes ?? 0) - (begins ?? 0)).toBe(43_200);
    expect(asks).toMatchObject([
      {
        metadata: {
          ImpersonatedIdentity: "spiffe://cluster.local/ns/shop/sa/web",
          PodName: "web-0",
          PodUid: podUid,
          NodeName: "node-1",
        },
      },
    ]);
    expect(asks[0]?.metadata).not.toHaveProperty("CertSigner");
  });

  test.each([
    [3600, 86_400, 3600],
    [7200, 3600, 3600],
    [7_862_400, 172_800, 172_800],
  ])(
    "that asks for %i s of at most %i s and gets %i s, backdating included",
    async (...seconds) => {
      const [maxExpirationSeconds, maximumSeconds, life] = seconds;
      const { answer } = answering({}, maximumSeconds);
      const status = await answer({ ...(await withCsr()), maxExpirationSeconds });
      if (status.type !== "Issued") throw new Error(`${status.type}: ${status.reason}`);
      expect((status.notAfter.getTime() - status.notBefore.getTime()) / 1000).toBe(life);
    },
  );

  test("of the named signer of the CA, if the configuration names one", async () => {
    const { answer, asks } = answering({ authority: "payments" });
    await expect(answer(await withCsr())).rejects.toThrow();
    expect(asks).toMatchObject([{ metadata: { CertSigner: "payments" } }]);
  });

  test("for a key that has signed the pod's UID", async () => {
    const key = await createPodKey("P-384");
    const spec = {
      pkixPublicKey: Base64.format(key.spki),
      proofOfPossession: await key.proof(podUid),
    };
    const { answer, asks } = answering();
    expect(await answer(spec)).toMatchObject({ type: "Issued" });
    expect(asks).toMatchObject([
      { metadata: { PodUid: podUid, ProofOfPossession: spec.proofOfPossession } },
    ]);
  });
});

describe("a pod is denied, and the CA not asked,", () => {
  async function refusal(spec: object, changes?: Partial<typeof policy>): Promise<string> {
    const { answer, asks } = answering(changes);
    const status = await answer(spec);
    expect(asks).toEqual([]);
    return status.type === "Issued" ? "Issued" : `${status.type} ${status.reason}`;
  }

  test("for annotations", async () => {
    const spec = { ...(await withCsr()), unverifiedUserAnnotations: { "a.test/b": "c" } };
    expect(await refusal(spec)).toBe("Denied InvalidUnverifiedUserAnnotations");
  });

  test.each(["a".repeat(65), "a".repeat(128), "a_b"])("for the UID %s", async (podUID) => {
    expect(await refusal({ ...(await withCsr()), podUID })).toBe("Failed InvalidPodUid");
  });

  test("in a namespace that the configuration does not name", async () => {
    const spec = await withCsr();
    expect(await refusal(spec, { namespaces: ["sho", "shop-*"] })).toBe(
      "Denied NamespaceNotServed",
    );
  });

  test.each([
    ["a type that the configuration does not name", "P-384", ["ECDSAP256"]],
    ["another type that it does not name", "Ed25519", ["ECDSAP256", "RSA3072"]],
    ["no type of Kubernetes", "RSA-2048", podKeyTypes],
  ] as const)("for a key of %s", async (_, kind, key_types) => {
    expect(await refusal(await withCsr(kind), { key_types: key_types as never })).toBe(
      "Denied UnsupportedKeyType",
    );
  });

  test("for the key of a CSR that another key has signed", async () => {
    const [one, other] = [await emptyCsr(), await emptyCsr()];
    const octets = Buffer.from(one.base64, "base64");
    const signature = Buffer.from(other.base64, "base64");
    const mixed = Buffer.concat([octets.subarray(0, 110), signature.subarray(110)]);
    const outcome = await refusal({ stubPKCS10Request: mixed.toString("base64") });
    expect(outcome).toBe("Failed InvalidProofOfPossession");
  });

  test.each([
    ["empty", async () => ""],
    ["too short", async () => "AAAA"],
    ["no base64", async () => "*"],
    [
      "over the UID of another pod",
      ({ proof }: Awaited<ReturnType<typeof createPodKey>>) => proof(podUid.replace("0", "1")),
    ],
  ])("for a proof of possession that is %s", async (_, proofBy) => {
    const key = await createPodKey("P-256");
    const spec = {
      pkixPublicKey: Base64.format(key.spki),
      proofOfPossession: await proofBy(key),
    };
    expect(await refusal(spec)).toBe("Failed InvalidProofOfPossession");
  });
});

test("a pod waits for a CA that does not answer, or answers for another workload", async () => {
  const asked = requestOf(await withCsr());
  const away = podCertificates(signer, policy, trustDomain, async () => {
    throw new Error("ECONNREFUSED");
  });
  await expect(answerBy(away, asked)).rejects.toThrow("ECONNREFUSED");
  const wrong = podCertificates(signer, policy, trustDomain, (ask) =>
    issueFor(ca, {
      ...ask,
      metadata: { ImpersonatedIdentity: "spiffe://cluster.local/ns/shop/sa/other" },
    }),
  );
  await expect(answerBy(wrong, asked)).rejects.toThrow("the certificate of another workload");
});
