import "reflect-metadata/lite";
import { type SubjectAlternativeNameExtension, X509Certificate } from "@peculiar/x509";
import { beforeAll, describe, expect, test } from "vitest";
import { Base64 } from "../../../src/pki/encoding/base64.ts";
import {
  createPodKey,
  type PodKey,
  type PodKeyKind,
  podKeyKinds,
  podUid,
} from "../../testkit/callers/pod-key.ts";
import { createWorkload, type Workload } from "../../testkit/callers/workload.ts";
import { bearer, type CertificateCall, callWithClient, grpcWeb, protocols } from "../rpc-calls.ts";
import { issuers, type PlatformUnderTest, type ServiceUnderTest } from "../service-under-test.ts";

/** The requests of the account of `rampart signer`, over each protocol. */
export function describeClusterSigners(
  service: () => ServiceUnderTest,
  { isIdempotent = false }: PlatformUnderTest,
): void {
  let workload: Workload;

  const podKeys = new Map<PodKeyKind, PodKey>();
  const podKey = (kind: PodKeyKind): PodKey => {
    const key = podKeys.get(kind);
    if (!key) throw new Error(`there is no ${kind} key yet`);
    return key;
  };

  beforeAll(async () => {
    workload = await createWorkload();
    for (const kind of podKeyKinds) podKeys.set(kind, await createPodKey(kind));
  });

  type Metadata = NonNullable<CertificateCall["metadata"]>;
  const pod = { ImpersonatedIdentity: "spiffe://cluster.local/ns/foo/sa/bar" };
  const serving = (...DnsNames: string[]): Metadata => ({ CertSigner: "serving", DnsNames });

  async function ask(
    metadata: Metadata,
    { account = "istio-system:signer", issuer = issuers.cluster as string, csr = workload.csrPem },
    protocol = grpcWeb,
  ) {
    const headers = await bearer(service(), account, issuer);
    return callWithClient(protocol, service(), { csr, metadata }, headers);
  }

  async function namesFor(metadata: Metadata, protocol = grpcWeb, csr = workload.csrPem) {
    const outcome = await ask(metadata, { csr }, protocol);
    if ("code" in outcome) throw new Error(`refused: ${outcome.code}: ${outcome.message}`);
    const leaf = new X509Certificate(outcome.certChain[0] ?? "");
    return {
      names: leaf.getExtension<SubjectAlternativeNameExtension>("2.5.29.17")?.names.toJSON(),
      spki: new Uint8Array(leaf.publicKey.rawData),
    };
  }

  describe.each(protocols)("over $name", (protocol) => {
    test("gets the certificate of a workload, wherever its pod runs", async () => {
      const { names, spki } = await namesFor(pod, protocol);
      expect(names).toEqual([{ type: "url", value: pod.ImpersonatedIdentity }]);
      expect(spki).toEqual(workload.spki);
    });

    test("gets a serving certificate with the names that it requests, each once", async () => {
      const metadata = serving("a.foo.svc", "a.foo.svc.cluster.local", "a.foo.svc");
      const { names } = await namesFor(metadata, protocol);
      expect(names).toEqual([
        { type: "dns", value: "a.foo.svc" },
        { type: "dns", value: "a.foo.svc.cluster.local" },
      ]);
    });
  });

  const chainFor = async (metadata: Metadata): Promise<readonly string[]> => {
    const outcome = await ask(metadata, {});
    if ("code" in outcome) throw new Error(`refused: ${outcome.code}: ${outcome.message}`);
    return outcome.certChain;
  };

  test("gets a certificate for a request that it repeats, the same one where the platform remembers it", async () => {
    const named = { ...pod, RequestUid: "7c2d9a1e-uid" };
    const [first, second] = [await chainFor(named), await chainFor(named)];
    expect(first[0] === second[0]).toBe(isIdempotent);
    const audits = service().takeAudits().slice(-2);
    expect(audits.map(({ outcome }) => outcome)).toEqual(["issued", "issued"]);
    expect(new Set(audits.map(({ serialNumber }) => serialNumber)).size).toBe(isIdempotent ? 1 : 2);
  });

  test.each(podKeyKinds)(
    "gets a certificate for a %s key that signed the UID of its pod",
    async (kind) => {
      const key = podKey(kind);
      const proved = { ...pod, PodUid: podUid, ProofOfPossession: await key.proof(podUid) };
      const { names, spki } = await namesFor(proved, grpcWeb, key.publicKeyPem);
      expect(names).toEqual([{ type: "url", value: pod.ImpersonatedIdentity }]);
      expect(spki).toEqual(key.spki);
    },
  );

  const csrRejected = { code: "InvalidArgument", message: "certificate signing request rejected" };

  test.each(podKeyKinds)("gets none for a %s key that signed another UID", async (kind) => {
    const key = podKey(kind);
    const ProofOfPossession = await key.proof(podUid.replace("0", "1"));
    const csr = key.publicKeyPem;
    expect(await ask({ ...pod, PodUid: podUid, ProofOfPossession }, { csr })).toEqual(csrRejected);
  });

  test.each(podKeyKinds)(
    "gets none for a %s key with a proof that is cut or longer",
    async (kind) => {
      const key = podKey(kind);
      const csr = key.publicKeyPem;
      const proof = await key.proof(podUid);
      const octets = Uint8Array.from(atob(proof), (letter) => letter.charCodeAt(0));
      for (const wrong of [octets.subarray(1), new Uint8Array([...octets, 0]), octets.fill(0)]) {
        const metadata = { ...pod, PodUid: podUid, ProofOfPossession: Base64.format(wrong) };
        expect(await ask(metadata, { csr })).toEqual(csrRejected);
      }
    },
  );

  test("gets none for a key without a proof, or with a proof over a text of its choice", async () => {
    const key = podKey("P-256");
    const csr = key.publicKeyPem;
    const proofOver = async (PodUid: string) => ({
      ...pod,
      PodUid,
      ProofOfPossession: await key.proof(PodUid),
    });
    const chosen = await Promise.all(
      ["GET / HTTP/1.1", "GET", podUid.toUpperCase()].map(proofOver),
    );
    for (const metadata of [pod, { ...pod, PodUid: podUid }, ...chosen]) {
      expect(await ask(metadata, { csr })).toEqual(csrRejected);
    }
  });

  test("is the only caller that may prove a key without a CSR", async () => {
    const key = podKey("P-256");
    const metadata = { PodUid: podUid, ProofOfPossession: await key.proof(podUid) };
    for (const account of ["foo:bar", "istio-system:ztunnel"]) {
      expect(await ask(metadata, { account, csr: key.publicKeyPem })).toEqual(csrRejected);
    }
  });

  const denied = { code: "PermissionDenied", message: "caller may not request this identity" };
  const namesDenied = {
    code: "PermissionDenied",
    message: "caller may not request these DNS names",
  };

  test.each<[string, string]>([
    ["of a namespace beyond its table", "spiffe://cluster.local/ns/bar/sa/a"],
    ["of another trust domain", "spiffe://other.local/ns/foo/sa/bar"],
  ])("gets no certificate for an identity %s", async (_, ImpersonatedIdentity) => {
    expect(await ask({ ImpersonatedIdentity }, {})).toEqual(denied);
  });

  test("gets no certificate for a namespace beyond its issuer, whatever its table says", async () => {
    const asked = { account: "team-mesh:signer", issuer: issuers.team };
    expect(await ask(pod, asked)).toEqual(denied);
  });

  test("is an account of its issuer: another issuer's account of the same name is none", async () => {
    const metadata = { ImpersonatedIdentity: "spiffe://cluster.local/ns/team-a/sa/web" };
    const asked = { account: "team-x:signer", issuer: issuers.team };
    expect(await ask(metadata, asked)).toEqual(denied);
  });

  test.each<[string, Metadata]>([
    ["beyond its table", serving("a.bar.svc")],
    ["of which one is beyond its table", serving("a.foo.svc", "ca.example.com")],
    ["that is a wildcard", serving("*.foo.svc")],
    ["without any", serving()],
    [
      "of which there are too many",
      serving(...Array.from({ length: 33 }, (_, i) => `a${i}.foo.svc`)),
    ],
    ["that is no text", { CertSigner: "serving", DnsNames: [1] }],
  ])("gets no serving certificate for a name %s", async (_, metadata) => {
    expect(await ask(metadata, {})).toEqual(namesDenied);
  });

  test("without names in its table gets no serving certificate", async () => {
    const asked = { account: "team-mesh:signer", issuer: issuers.team };
    expect(await ask(serving("a.foo.svc"), asked)).toEqual(namesDenied);
  });

  test("is the only caller whose names count", async () => {
    for (const account of ["foo:bar", "istio-system:ztunnel"]) {
      const outcome = await ask(serving("a.foo.svc"), { account });
      expect(outcome).toEqual({ code: "InvalidArgument", message: "no such signer" });
    }
  });

  test("leaves an audit line with itself as the impersonator", async () => {
    service().takeAudits();
    await ask(pod, {});
    await ask(serving("a.bar.svc"), {});
    const own = "spiffe://cluster.local/ns/istio-system/sa/signer";
    expect(service().takeAudits()).toMatchObject([
      { outcome: "issued", spiffeId: pod.ImpersonatedIdentity, impersonator: own },
      { outcome: "refused", reason: "dns-name-denied", spiffeId: own },
    ]);
  });
}
