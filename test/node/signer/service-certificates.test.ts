import { X509Certificate } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { CertificateAsk } from "../../../src/node/gateway/certificate-source.ts";
import {
  parseServiceCertificateRequest,
  type ServiceCertificateRequest,
} from "../../../src/node/signer/service-certificate-request.ts";
import { serviceCertificates } from "../../../src/node/signer/service-certificates.ts";
import { issueFor } from "../../testkit/ca/issue-for-signer.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { withBrokenSignature } from "../../testkit/callers/workload.ts";
import { emptyCsr, serviceRequestJson } from "../../testkit/kubernetes/certificate-requests.ts";

const signer = {
  name: "mesh.example.com/workload",
  maximumSeconds: 86_400,
  services: [
    { account: { namespace: "shop", name: "web" }, dns_names: ["web.shop.svc", "*.web.shop.svc"] },
    { account: { namespace: "shop", name: "web" }, dns_names: ["extra.shop.svc"] },
    { account: { namespace: "shop", name: "db" }, dns_names: ["db.shop.svc"] },
  ],
};

let ca: RunningCa;

beforeAll(async () => {
  ca = await startCa();
  await ca.found();
});

const dns = (...values: string[]) => values.map((value) => ({ type: "dns" as const, value }));

async function requestOf(
  names: Parameters<typeof emptyCsr>[1] & readonly unknown[],
  { spec, status, change = (pem: string) => pem }: Changes = {},
): Promise<ServiceCertificateRequest> {
  const { pem } = await emptyCsr("P-256", names);
  const json = serviceRequestJson(change(pem), spec, status);
  const [, request] = parseServiceCertificateRequest(json) ?? [];
  if (!request) throw new Error("the request does not parse");
  return request;
}

interface Changes {
  readonly spec?: object;
  readonly status?: object;
  readonly change?: (pem: string) => string;
}

function certificates() {
  const asks: CertificateAsk[] = [];
  const source = async (ask: CertificateAsk) => {
    asks.push(ask);
    return issueFor(ca, ask);
  };
  return { ...serviceCertificates(signer, source), asks };
}

async function refusal(request: ServiceCertificateRequest): Promise<string> {
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
    const admitted = await admit(await requestOf(names));
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
    const admitted = await admit(await requestOf(dns("web.shop.svc"), { spec }));
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
    expect(await refusal(await requestOf(names))).toBe("Denied NameNotAllowed");
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
    expect(await refusal(await requestOf(names))).toBe("Denied UnsupportedNames");
  });

  test.each([
    ["a client's usage", ["digital signature", "server auth", "client auth"]],
    ["no server's usage", ["digital signature"]],
    ["a CA's usage", ["server auth", "cert sign"]],
    ["no usage", []],
  ])("%s", async (_, usages) => {
    const request = await requestOf(dns("web.shop.svc"), { spec: { usages } });
    expect(await refusal(request)).toBe("Denied UnsupportedUsages");
  });

  test.each(["admin", "system:serviceaccount:shop:other", "system:serviceaccount:other:web"])(
    "the requester %s",
    async (username) => {
      const request = await requestOf(dns("web.shop.svc"), { spec: { username } });
      expect(await refusal(request)).toBe("Denied RequesterNotServed");
    },
  );

  test.each([
    ["no CSR", () => "junk"],
    ["two CSRs", (pem: string) => pem + pem],
    ["a CSR that another key has signed", withBrokenSignature],
  ])("%s", async (_, change) => {
    const request = await requestOf(dns("web.shop.svc"), { change });
    expect(await refusal(request)).toBe("Denied InvalidRequest");
  });

  test("and fails instead where somebody else has approved the request", async () => {
    const status = { conditions: [{ type: "Approved" }] };
    const request = await requestOf(dns("db.shop.svc"), { status });
    expect(await refusal(request)).toBe("Failed NameNotAllowed");
  });
});
