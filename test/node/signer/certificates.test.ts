import { X509Certificate } from "node:crypto";
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
import {
  parseServiceCertificateRequest,
  type ServiceCertificateRequest,
} from "../../../src/node/signer/service-certificate-request.ts";
import { serviceCertificates } from "../../../src/node/signer/service-certificates.ts";
import { podKeyTypes } from "../../../src/node/signer/signer-configuration.ts";
import { Base64 } from "../../../src/pki/encoding/base64.ts";
import { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { issueFor } from "../../testkit/ca/issue-for-signer.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { createPodKey, podUid } from "../../testkit/callers/pod-key.ts";
import { withBrokenSignature } from "../../testkit/callers/workload.ts";
import {
  emptyCsr,
  podRequestJson,
  serviceRequestJson,
} from "../../testkit/kubernetes/certificate-requests.ts";

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

const serving = {
  ...signer,
  services: [
    { account: { namespace: "shop", name: "web" }, dns_names: ["web.shop.svc", "*.web.shop.svc"] },
    { account: { namespace: "shop", name: "web" }, dns_names: ["extra.shop.svc"] },
    { account: { namespace: "shop", name: "db" }, dns_names: ["db.shop.svc"] },
  ],
};

const dns = (...values: string[]) => values.map((value) => ({ type: "dns" as const, value }));

async function serviceRequestOf(
  names: Parameters<typeof emptyCsr>[1] & readonly unknown[],
  { spec = {}, status = {}, change = (pem: string) => pem } = {},
): Promise<ServiceCertificateRequest> {
  const { pem } = await emptyCsr("P-256", names);
  const json = serviceRequestJson(change(pem), spec, status);
  const [, request] = parseServiceCertificateRequest(json) ?? [];
  if (!request) throw new Error("the request does not parse");
  return request;
}

function certificates() {
  const asks: CertificateAsk[] = [];
  const source = async (ask: CertificateAsk) => {
    asks.push(ask);
    return issueFor(ca, ask);
  };
  return { ...serviceCertificates(serving, source), asks };
}

async function serviceRefusal(request: ServiceCertificateRequest): Promise<string> {
  const outcome = await certificates().admit(request);
  return "type" in outcome ? `${outcome.type} ${outcome.reason}` : "admitted";
}

describe("a service gets a certificate", () => {
  test.each([
    ["one name of its policy", dns("web.shop.svc"), "DNS:web.shop.svc"],
    [
      "names of both of its policies",
      dns("a.web.shop.svc", "extra.shop.svc"),
      "DNS:a.web.shop.svc, DNS:extra.shop.svc",
    ],
    ["a name twice", dns("web.shop.svc", "web.shop.svc"), "DNS:web.shop.svc"],
  ])("with %s", async (_, names, subjectAltName) => {
    const { admit, certificateFor } = certificates();
    const admitted = await admit(await serviceRequestOf(names));
    if ("type" in admitted) throw new Error(admitted.reason);
    const chain = await certificateFor(admitted);
    expect(chain.match(/BEGIN CERTIFICATE/g)).toHaveLength(1);
    expect(new X509Certificate(chain).subjectAltName).toBe(subjectAltName);
  });

  test.each([
    [undefined, 86_400],
    [3600, 3600],
    [172_800, 86_400],
  ])("for %j s asks the CA for %i s", async (expirationSeconds, seconds) => {
    const { admit, certificateFor, asks } = certificates();
    const key = "authentication.kubernetes.io";
    const extra = {
      [`${key}/pod-name`]: ["web-0"],
      [`${key}/pod-uid`]: ["uid-of-web-0"],
      [`${key}/node-name`]: ["node-1"],
      [`${key}/credential-id`]: ["JTI=t1"],
    };
    const spec = { expirationSeconds, extra };
    const admitted = await admit(await serviceRequestOf(dns("web.shop.svc"), { spec }));
    if ("type" in admitted) throw new Error(admitted.reason);
    await certificateFor(admitted);
    const pod = { PodName: "web-0", PodUid: "uid-of-web-0", NodeName: "node-1", TokenId: "t1" };
    const metadata = { CertSigner: "serving", DnsNames: ["web.shop.svc"], Requester: "shop/web" };
    expect(asks).toMatchObject([
      {
        request: expect.stringContaining("uid"),
        requestedSeconds: seconds,
        metadata: { ...metadata, ...pod },
      },
    ]);
  });
});

describe("a service is denied", () => {
  test.each([
    ["another's name", dns("db.shop.svc")],
    ["one name of its own and another's", dns("web.shop.svc", "db.shop.svc")],
    ["a name that its own ends with", dns("xweb.shop.svc")],
  ])("%s", async (_, names) => {
    expect(await serviceRefusal(await serviceRequestOf(names))).toBe("Denied NameNotAllowed");
  });

  test.each<[string, Parameters<typeof emptyCsr>[1] & readonly unknown[]]>([
    ["no name", []],
    ["a wildcard", dns("*.web.shop.svc")],
    ["upper case", dns("Web.shop.svc")],
    ["an address", [{ type: "ip", value: "10.0.0.1" }]],
    [
      "a name and a SPIFFE ID",
      [...dns("web.shop.svc"), { type: "url", value: "spiffe://cluster.local/ns/a/sa/b" }],
    ],
    ["too many names", dns(...Array.from({ length: 33 }, (_, i) => `a${i}.web.shop.svc`))],
  ])("%s", async (_, names) => {
    expect(await serviceRefusal(await serviceRequestOf(names))).toBe("Denied UnsupportedNames");
  });

  test.each([
    ["a client's usage", ["digital signature", "server auth", "client auth"]],
    ["no server's usage", ["digital signature"]],
    ["a CA's usage", ["server auth", "cert sign"]],
    ["no usage", []],
  ])("%s", async (_, usages) => {
    const request = await serviceRequestOf(dns("web.shop.svc"), { spec: { usages } });
    expect(await serviceRefusal(request)).toBe("Denied UnsupportedUsages");
  });

  test.each(["admin", "system:serviceaccount:shop:other", "system:serviceaccount:other:web"])(
    "the requester %s",
    async (username) => {
      const request = await serviceRequestOf(dns("web.shop.svc"), { spec: { username } });
      expect(await serviceRefusal(request)).toBe("Denied RequesterNotServed");
    },
  );

  test.each([
    ["no CSR", () => "junk"],
    ["two CSRs", (pem: string) => pem + pem],
    ["a CSR that another key has signed", withBrokenSignature],
  ])("%s", async (_, change) => {
    const request = await serviceRequestOf(dns("web.shop.svc"), { change });
    expect(await serviceRefusal(request)).toBe("Denied InvalidRequest");
  });

  test("and fails instead where somebody else has approved the request", async () => {
    const status = { conditions: [{ type: "Approved" }] };
    const request = await serviceRequestOf(dns("db.shop.svc"), { status });
    expect(await serviceRefusal(request)).toBe("Failed NameNotAllowed");
  });
});
