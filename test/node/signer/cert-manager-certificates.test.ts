import "reflect-metadata/lite";
import { BasicConstraintsExtension } from "@peculiar/x509";
import { beforeAll, describe, expect, test } from "vitest";
import { maximumServingNames } from "../../../src/ca/issuance/signer-names.ts";
import {
  certManagerCertificates,
  issuedFault,
} from "../../../src/node/signer/cert-manager-certificates.ts";
import {
  type CertManagerRequest,
  parseCertManagerRequest,
} from "../../../src/node/signer/cert-manager-request.ts";
import { SignerConfiguration } from "../../../src/node/signer/signer-configuration.ts";
import { issueFor } from "../../testkit/ca/issue-for-signer.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { podUid } from "../../testkit/callers/pod-key.ts";
import { withBrokenSignature } from "../../testkit/callers/workload.ts";
import { certManagerRequestJson, emptyCsr } from "../../testkit/kubernetes/certificate-requests.ts";

const configuration = SignerConfiguration.parse(
  {
    UPSTREAM: "https://ca.test",
    KUBERNETES_SERVER: "https://api.test",
    SIGNERS: [
      {
        name: "mesh.example.com/workload",
        cert_manager: [
          { namespaces: ["shop", "cert-manager"], dns_names: ["*.shop.svc"] },
          {
            namespaces: ["istio-system"],
            requester: "istio-system/istio-csr",
            identities: ["shop"],
          },
          { namespaces: ["pay"], requester: "cert-manager/cert-manager", identities: ["pay"] },
        ],
      },
    ],
  },
  {},
);

let ca: RunningCa;

beforeAll(async () => {
  ca = await startCa();
  await ca.found();
});

const uri = (value: string) => ({ type: "url" as const, value });
const dns = (value: string) => ({ type: "dns" as const, value });
const idOf = (account: string, namespace = "shop") =>
  uri(`spiffe://cluster.local/ns/${namespace}/sa/${account}`);
const own = idOf("web");

const byAccount = (account: string) => ({ username: `system:serviceaccount:${account}` });
const serving = { usages: ["digital signature", "key encipherment", "server auth"] };

interface Changes {
  readonly namespace?: string;
  readonly spec?: object;
  readonly change?: (pem: string) => string;
}

async function requestOf(
  names: NonNullable<Parameters<typeof emptyCsr>[1]>,
  { namespace = "shop", spec = {}, change = (pem) => pem }: Changes = {},
): Promise<CertManagerRequest> {
  const { pem } = await emptyCsr("P-256", names);
  const json = certManagerRequestJson(change(pem), { metadata: { namespace }, spec });
  const [, request] = parseCertManagerRequest(json) ?? [];
  if (!request) throw new Error("the request does not parse");
  return request;
}

function judge(request: CertManagerRequest) {
  const [signer] = configuration.signers;
  if (!signer) throw new Error("unreachable");
  return certManagerCertificates(signer, configuration.trustDomain)(request);
}

async function faultOf(...args: Parameters<typeof requestOf>): Promise<string> {
  const judged = await judge(await requestOf(...args));
  return "ask" in judged ? "allowed" : judged.reason === "Failed" ? judged.fault : judged.reason;
}

describe("a SPIFFE ID", () => {
  test("is that of the requester, whose pod the CA learns", async () => {
    const extra = {
      "authentication.kubernetes.io/pod-name": ["web-0"],
      "authentication.kubernetes.io/pod-uid": [podUid],
      "authentication.kubernetes.io/node-name": ["node-1"],
    };
    expect(await judge(await requestOf([own], { spec: { extra } }))).toMatchObject({
      spiffeId: own.value,
      ask: {
        request: "uid-of-cr-1",
        metadata: {
          ImpersonatedIdentity: own.value,
          PodName: "web-0",
          PodUid: podUid,
          NodeName: "node-1",
        },
      },
    });
  });

  test.each<[string, ReturnType<typeof uri>, Changes]>([
    ["another account's", idOf("db"), {}],
    ["the requester's, from another namespace", own, { namespace: "cert-manager" }],
    // Its account creates the requests of every namespace, whoever has written the Certificate.
    [
      "cert-manager's own, from a tenant's namespace",
      idOf("cert-manager", "cert-manager"),
      { spec: byAccount("cert-manager:cert-manager") },
    ],
    ["the requester's of another trust domain", uri("spiffe://other.test/ns/shop/sa/web"), {}],
    ["none of a workload", uri("https://web.shop.svc/"), {}],
    [
      "the requester's, of a namespace that has no rule",
      idOf("web", "bar"),
      { namespace: "bar", spec: byAccount("bar:web") },
    ],
    ["named by a user that is no ServiceAccount", own, { spec: { username: "shop:web" } }],
    [
      "one that another account in the namespace of istio-csr names",
      own,
      { namespace: "istio-system", spec: byAccount("istio-system:other") },
    ],
    [
      "one that istio-csr names in another namespace",
      own,
      { spec: byAccount("istio-system:istio-csr") },
    ],
    [
      "one that a namesake of istio-csr names",
      own,
      { namespace: "istio-system", spec: byAccount("pay:istio-csr") },
    ],
    [
      "one that istio-csr may not name",
      idOf("web", "pay"),
      { namespace: "istio-system", spec: byAccount("istio-system:istio-csr") },
    ],
    [
      "one of a tenant that a neighbour asks for",
      idOf("api", "pay"),
      { spec: byAccount("cert-manager:cert-manager") },
    ],
  ])("is not %s", async (_, name, changes) => {
    expect(await faultOf([name], changes)).toBe("NameNotAllowed");
  });

  test.each([
    ["1h", 3600],
    ["25h", 86_400],
    [undefined, 86_400],
  ])("of which %s is requested lives for %i seconds", async (duration, requestedSeconds) => {
    const judged = await judge(await requestOf([own], { spec: { duration } }));
    expect(judged).toMatchObject({ ask: { requestedSeconds } });
  });

  test.each<[string, ReturnType<typeof uri>, Changes]>([
    [
      "istio-csr names in its namespace",
      own,
      { namespace: "istio-system", spec: byAccount("istio-system:istio-csr") },
    ],
    [
      "a Certificate of a namespace with a rule for it names",
      idOf("api", "pay"),
      { namespace: "pay", spec: byAccount("cert-manager:cert-manager") },
    ],
  ])("is one that %s, and the requester is not its holder", async (_, name, changes) => {
    const judged = await judge(await requestOf([name], changes));
    expect(judged).toMatchObject({
      ask: { metadata: { ImpersonatedIdentity: name.value } },
    });
    expect(JSON.stringify(judged)).not.toMatch(/Requester|PodName/);
  });
});

describe("DNS names", () => {
  const names = [dns("web.shop.svc"), dns("a.shop.svc")];

  test("alone are those of a serving certificate, for nobody known if cert-manager asks", async () => {
    const spec = { ...serving, ...byAccount("cert-manager:cert-manager") };
    const judged = await judge(await requestOf(names, { spec }));
    expect(judged).toMatchObject({
      ask: { metadata: { CertSigner: "serving", DnsNames: ["web.shop.svc", "a.shop.svc"] } },
    });
    expect(JSON.stringify(judged)).not.toContain("Requester");
  });

  test("are for the requester in its own namespace", async () => {
    expect(await judge(await requestOf(names, { spec: serving }))).toMatchObject({
      ask: { metadata: { Requester: "shop/web" } },
    });
  });

  test("of a SPIFFE ID are those that a rule of the CA adds", async () => {
    const judged = await judge(await requestOf([own, dns("web.shop.svc")]));
    if (!("ask" in judged)) throw new Error("it is not allowed");
    const chain = await issueFor(ca, judged.ask);
    expect(issuedFault(chain, judged)).toMatchObject({ fault: "NameNotAllowed" });
    expect(issuedFault(chain, { ...judged, dnsNames: [] })).toBeUndefined();
    expect(() => issuedFault(chain, { ...judged, spiffeId: idOf("db").value })).toThrow(
      "another workload",
    );
  });
});

const certifying = await emptyCsr("P-256", [own], [new BasicConstraintsExtension(true)]);
const tooMany = Array.from({ length: maximumServingNames + 1 }, (_, i) => dns(`${i}.shop.svc`));

test.each<[string, Parameters<typeof requestOf>]>([
  ["UnsupportedCA", [[own], { spec: { isCA: true } }]],
  ["UnsupportedUsages", [[own], { spec: { usages: ["client auth", "cert sign"] } }]],
  ["UnsupportedUsages", [[dns("web.shop.svc")], { spec: { usages: ["client auth"] } }]],
  ["UnsupportedExtensions", [[own], { change: () => certifying.pem }]],
  ["UnsupportedNames", [[own, idOf("db"), dns("web.shop.svc")]]],
  ["UnsupportedNames", [tooMany, { spec: serving }]],
  ["UnsupportedNames", [[], { spec: serving }]],
  ["UnsupportedNames", [[own, { type: "ip", value: "127.0.0.1" }]]],
  ["UnsupportedNames", [[own, { type: "email", value: "a@b.test" }]]],
  ["UnsupportedNames", [[dns("*.shop.svc")], { spec: serving }]],
  ["NameNotAllowed", [[dns("web.other.svc")], { spec: serving }]],
  ["NameNotAllowed", [[dns("web.shop.svc")], { spec: serving, namespace: "bar" }]],
  ["InvalidRequest", [[own], { change: withBrokenSignature }]],
  ["InvalidRequest", [[own], { change: () => "" }]],
])("a request fails: %s", async (fault, request) => {
  expect(await faultOf(...request)).toBe(fault);
});

const is = (type: string, reason = "a") => ({ type, status: "True", reason });
const notReady = (reason: string) => ({ type: "Ready", status: "False", reason });

test.each([
  ["neither approved nor denied", true, []],
  ["not yet approved", true, [{ type: "Approved", status: "False" }]],
  ["approved", false, [is("Approved")]],
  ["pending", false, [is("Approved"), notReady("Pending")]],
  ["issued", true, [is("Approved"), is("Ready", "Issued")]],
  ["failed", true, [is("Approved"), notReady("Failed")]],
  ["invalid", true, [is("Approved"), is("InvalidRequest")]],
  ["denied", false, [is("Denied")]],
  ["denied, with its answer", true, [is("Denied"), notReady("Denied")]],
])("a request that is %s is left alone: %s", (_, isLeftAlone, conditions) => {
  const json = { ...certManagerRequestJson("a"), status: { conditions } };
  const [key, request] = parseCertManagerRequest(json) ?? [];
  expect(key).toBe("shop/cr-1");
  expect(request === undefined).toBe(isLeftAlone);
});

test("a denial wins over an approval", () => {
  const json = certManagerRequestJson("a", { conditions: [{ type: "Denied", status: "True" }] });
  expect(parseCertManagerRequest(json)?.[1]?.isDenied).toBe(true);
});
