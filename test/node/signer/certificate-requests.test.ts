import { describe, expect, test } from "vitest";
import { FetchError } from "../../../src/foundation/fetch.ts";
import type { KubernetesClient, KubernetesRequest } from "../../../src/kubernetes/client.ts";
import {
  answerPodCertificate,
  type PodCertificateRequest,
  parsePodCertificateRequest,
  podCertificatesVersion,
} from "../../../src/node/signer/pod-certificate-request.ts";
import {
  answerServiceCertificate,
  decide,
  parseServiceCertificateRequest,
  type ServiceCertificateRequest,
} from "../../../src/node/signer/service-certificate-request.ts";
import { podUid } from "../../testkit/callers/pod-key.ts";
import {
  podRequestJson,
  serviceRequestJson,
} from "../../testkit/kubernetes/certificate-requests.ts";

const now = new Date("2026-11-22T12:00:00.250Z");

function recordingClient(answer: unknown = {}) {
  const requests: KubernetesRequest[] = [];
  const send = async (request: KubernetesRequest): Promise<unknown> => {
    requests.push(request);
    return answer;
  };
  return { send, open: async () => new Response(), requests };
}

const withKey = { stubPKCS10Request: "MAA=" };
const [, podRequest] = parsePodCertificateRequest(podRequestJson(withKey)) as [
  string,
  PodCertificateRequest,
];
const [, serviceRequest] = parseServiceCertificateRequest(serviceRequestJson("a CSR")) as [
  string,
  ServiceCertificateRequest,
];

describe("a PodCertificateRequest", () => {
  test("is read with what the API server has established", () => {
    expect(parsePodCertificateRequest(podRequestJson(withKey))).toEqual([
      "shop/req-1",
      {
        namespace: "shop",
        name: "req-1",
        uid: "uid-of-req-1",
        account: { namespace: "shop", name: "web" },
        pod: { name: "web-0", uid: podUid },
        node: "node-1",
        maximumSeconds: 86_400,
        key: { pkcs10: Uint8Array.of(0x30, 0) },
        hasAnnotations: false,
      },
    ]);
  });

  test.each<[string, object, Partial<PodCertificateRequest>]>([
    [
      "a key and a signature, of an older kubelet",
      { pkixPublicKey: "MAA=", proofOfPossession: "AAAA" },
      { key: { publicKey: Uint8Array.of(0x30, 0), signature: "AAAA" } },
    ],
    [
      "annotations of the pod's author",
      { ...withKey, unverifiedUserAnnotations: { "a.test/b": "c" } },
      { hasAnnotations: true },
    ],
  ])("may have %s", (_, spec, read) => {
    expect(parsePodCertificateRequest(podRequestJson(spec))?.[1]).toMatchObject(read);
  });

  test.each(["Issued", "Denied", "Failed"])("that is %s has its answer", (type) => {
    const status = { conditions: [{ type, status: "True", reason: "A" }] };
    const parsed = parsePodCertificateRequest(podRequestJson(withKey, status));
    expect(parsed).toEqual(["shop/req-1", undefined]);
  });

  test("with a condition of another type awaits its answer", () => {
    const status = { conditions: [{ type: "SuggestedKeyType", status: "True" }] };
    expect(parsePodCertificateRequest(podRequestJson(withKey, status))?.[1]).toBeDefined();
  });

  test.each<[string, unknown]>([
    ["nothing", undefined],
    ["a list", []],
    ["no key", podRequestJson({})],
    ["a key that is no base64", podRequestJson({ stubPKCS10Request: "*" })],
    ["no account", podRequestJson({ ...withKey, serviceAccountName: "" })],
    ["an account with a slash", podRequestJson({ ...withKey, serviceAccountName: "a/b" })],
    ["a name with a slash", podRequestJson(withKey, {}, "a/../b")],
    ["no UID of a pod", podRequestJson({ ...withKey, podUID: "" })],
    ["a name of a pod that is too long", podRequestJson({ ...withKey, podName: "a".repeat(254) })],
    ["a name of a node that is none", podRequestJson({ ...withKey, nodeName: "\u0436" })],
  ])("is not %s", (_, object) => {
    expect(parsePodCertificateRequest(object)).toBeUndefined();
  });

  const path =
    "/apis/certificates.k8s.io/v1/namespaces/shop/podcertificaterequests/req-1/status?fieldManager=rampart-signer&force=true";

  test("is answered with a certificate and its times, for this UID alone", async () => {
    const client = recordingClient();
    const status = {
      type: "Issued",
      certificateChain: "PEM",
      notBefore: new Date("2026-11-22T11:58:00Z"),
      notAfter: new Date("2026-11-23T11:58:00Z"),
      beginRefreshAt: new Date("2026-11-22T23:58:00Z"),
    } as const;
    await answerPodCertificate(client, "v1", podRequest, status, now);
    expect(client.requests).toEqual([
      {
        method: "PATCH",
        path,
        body: {
          apiVersion: "certificates.k8s.io/v1",
          kind: "PodCertificateRequest",
          metadata: { namespace: "shop", name: "req-1", uid: "uid-of-req-1" },
          status: {
            conditions: [
              {
                type: "Issued",
                status: "True",
                reason: "Issued",
                message: "",
                lastTransitionTime: "2026-11-22T12:00:00Z",
              },
            ],
            certificateChain: "PEM",
            notBefore: "2026-11-22T11:58:00Z",
            notAfter: "2026-11-23T11:58:00Z",
            beginRefreshAt: "2026-11-22T23:58:00Z",
          },
        },
      },
    ]);
  });

  test("is denied with nothing but a reason", async () => {
    const client = recordingClient();
    const status = { type: "Denied", reason: "UnsupportedKeyType", message: "m" } as const;
    await answerPodCertificate(client, "v1", podRequest, status, now);
    expect(client.requests).toMatchObject([
      { body: { status: { conditions: [{ type: "Denied", reason: "UnsupportedKeyType" }] } } },
    ]);
    expect(JSON.stringify(client.requests)).not.toContain("certificateChain");
  });

  test.each([
    [["v1", "v1beta1"], "v1"],
    [["v1beta1"], "v1beta1"],
    [[], undefined],
  ])("is served in the versions %j, and asked for in %s", async (served, version) => {
    const send = async ({ path: asked }: KubernetesRequest) =>
      served.some((each) => asked.startsWith(`/apis/certificates.k8s.io/${each}/`))
        ? {}
        : undefined;
    expect(await podCertificatesVersion(send)).toBe(version);
  });

  test("is not known to an API server that refuses to list it", async () => {
    const send = async () => {
      throw new FetchError("refuses the credential", { status: 403 });
    };
    await expect(podCertificatesVersion(send)).rejects.toThrow(FetchError);
  });
});

describe("a CertificateSigningRequest", () => {
  test("is read with the requester that the API server has established", () => {
    const json = serviceRequestJson("a CSR", { expirationSeconds: 3600 });
    expect(parseServiceCertificateRequest(json)).toEqual([
      "csr-1",
      {
        name: "csr-1",
        uid: "uid-of-csr-1",
        requester: { account: { namespace: "shop", name: "web" } },
        csrPem: "a CSR",
        usages: ["digital signature", "server auth"],
        expirationSeconds: 3600,
        isApproved: false,
      },
    ]);
  });

  test("is read with the pod, the node and the token of its requester", () => {
    const extra = {
      "authentication.kubernetes.io/pod-name": ["web-0"],
      "authentication.kubernetes.io/pod-uid": ["web-uid"],
      "authentication.kubernetes.io/node-name": ["worker-3"],
      "authentication.kubernetes.io/credential-id": ["JTI=7ee52be0-9045-4653-aa5e-0da57b8dccdc"],
      "example.com/else": [],
    };
    const [, request] = parseServiceCertificateRequest(serviceRequestJson("", { extra })) ?? [];
    expect(request?.requester).toEqual({
      account: { namespace: "shop", name: "web" },
      pod: { name: "web-0", uid: "web-uid" },
      node: { name: "worker-3" },
      tokenId: "7ee52be0-9045-4653-aa5e-0da57b8dccdc",
    });
  });

  test.each([
    "admin",
    "system:node:node-1",
    "system:serviceaccount:shop",
    "system:serviceaccount:shop:web:x",
    "system:serviceaccount:Shop:web",
    "xsystem:serviceaccount:shop:web",
    "",
  ])("of the user %j has no account", (username) => {
    const [, request] = parseServiceCertificateRequest(serviceRequestJson("", { username })) ?? [];
    expect(request).toBeDefined();
    expect(request?.requester).toBeUndefined();
  });

  test("names no pod whose name is longer than any", () => {
    const username = "system:serviceaccount:shop:web";
    const key = "authentication.kubernetes.io/pod-name";
    const extra = { [key]: ["a".repeat(1_000_000)], [key.replace("name", "uid")]: ["u"] };
    const [, request] =
      parseServiceCertificateRequest(serviceRequestJson("", { username, extra })) ?? [];
    expect(request?.requester?.pod?.name).toHaveLength(254);
  });

  test.each([
    [{ certificate: "AAAA", conditions: [{ type: "Approved" }] }, false],
    [{ conditions: [{ type: "Denied" }] }, false],
    [{ conditions: [{ type: "Approved" }, { type: "Failed" }] }, false],
    [{ conditions: [{ type: "Approved" }] }, true],
    [{ conditions: null }, true],
    [{}, true],
  ])("with the status %j awaits something: %s", (status, awaits) => {
    const parsed = parseServiceCertificateRequest(serviceRequestJson("", {}, status));
    expect(parsed?.[1] !== undefined).toBe(awaits);
  });

  test.each([
    ["system:web", "system%3Aweb"],
    ["Web_1?", "Web_1%3F"],
  ])("may have the name %s", async (name, inPath) => {
    const json = serviceRequestJson("");
    const named = { ...json, metadata: { ...json.metadata, name } };
    const [key, request] = parseServiceCertificateRequest(named) ?? [];
    expect(key).toBe(name);
    const client = recordingClient();
    await answerServiceCertificate(client, request as ServiceCertificateRequest, "PEM");
    expect(client.requests[0]?.path).toContain(`/certificatesigningrequests/${inPath}/status?`);
  });

  test.each(["", ".", "..", "a/b", "a%2fb"])("has no name like %j", (name) => {
    const json = serviceRequestJson("");
    const named = { ...json, metadata: { ...json.metadata, name } };
    expect(parseServiceCertificateRequest(named)).toBeUndefined();
  });

  const place = "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr-1";
  const manager = "fieldManager=rampart-signer&force=true";

  test.each([
    ["Approved", "approval"],
    ["Denied", "approval"],
    ["Failed", "status"],
  ] as const)("is %s through its subresource %s", async (type, subresource) => {
    const client = recordingClient();
    await decide(client, serviceRequest, { type, reason: "A", message: "b" });
    expect(client.requests).toEqual([
      {
        method: "PATCH",
        path: `${place}/${subresource}?${manager}`,
        body: {
          apiVersion: "certificates.k8s.io/v1",
          kind: "CertificateSigningRequest",
          metadata: { name: "csr-1", uid: "uid-of-csr-1" },
          status: { conditions: [{ type, status: "True", reason: "A", message: "b" }] },
        },
      },
    ]);
  });

  test("is answered with the chain in base64", async () => {
    const client = recordingClient();
    await answerServiceCertificate(client, serviceRequest, "PEM");
    expect(client.requests).toMatchObject([
      { path: `${place}/status?${manager}`, body: { status: { certificate: "UEVN" } } },
    ]);
  });
});

test.each<[string, (client: KubernetesClient) => Promise<void>]>([
  [
    "pod",
    (client) => {
      const denied = { type: "Denied", reason: "A", message: "" } as const;
      return answerPodCertificate(client, "v1", podRequest, denied, now);
    },
  ],
  ["service", (client) => answerServiceCertificate(client, serviceRequest, "PEM")],
])("a request of a %s that is gone cannot be answered", async (_, answer) => {
  const gone = { send: async () => undefined, open: async () => new Response() };
  await expect(answer(gone)).rejects.toMatchObject({ status: 404 });
});
