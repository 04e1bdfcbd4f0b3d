import { X509Certificate } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { type CertificateEntry, LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { ObjectReader } from "../../../src/tlog/extend.ts";
import { Frontier } from "../../../src/tlog/frontier.ts";
import { type Checkpoint, openCheckpointText } from "../../../src/tlog/note/checkpoint.ts";
import { VerifierKey } from "../../../src/tlog/note/verifier-key.ts";
import { mintToken, serviceAccountClaims } from "../../testkit/callers/tokens.ts";
import { createWorkload, type Workload } from "../../testkit/callers/workload.ts";
import { bearer, type CertificateCall, callWithClient, grpcWeb } from "../rpc-calls.ts";
import { issuers, origin, type ServiceUnderTest, trustDomain } from "../service-under-test.ts";
import { logOrigin, readerToken } from "./log-values.ts";

/** A CA that logs to {@link logOrigin}, with one shard. */
interface LoggingService extends ServiceUnderTest {
  /** Publishes what was appended. */
  readonly publish: () => Promise<void>;
}

/** A request of a reader, with its token or without. */
const reading = (path: string, token: string | undefined = readerToken): Request =>
  new Request(`${origin}/log/${path}`, {
    headers: token === "" ? {} : { authorization: `Bearer ${token}` },
  });

/** The published log, read and verified as any reader does. */
export async function publishedLog({
  send,
}: Pick<LoggingService, "send">): Promise<{ checkpoint: Checkpoint; entries: CertificateEntry[] }> {
  const shards = await (await send(reading("logs.json"))).json();
  const [{ verifierKey = "" } = {}] = shards as { verifierKey?: string }[];
  const read = async (path: string) => {
    const response = await send(reading(`0/${path}`));
    return response.status === 200 ? new Uint8Array(await response.arrayBuffer()) : undefined;
  };
  const text = new TextDecoder().decode(await read("checkpoint"));
  const checkpoint = await openCheckpointText(text, VerifierKey.parse(verifierKey));
  const entries: CertificateEntry[] = [];
  await ObjectReader.extend(Frontier.empty(), checkpoint, read, (_, octets) => {
    const entry = LogEntry.parse(octets);
    if (entry.kind === "certificate") entries.push(entry);
  });
  return { checkpoint, entries };
}

/** The promises of a CA that logs, on every platform. */
export function describeIssuanceLog(start: () => Promise<LoggingService>): void {
  let service: LoggingService;
  let workload: Workload;

  beforeAll(async () => {
    service = await start();
    workload = await createWorkload();
  });

  async function issue(headers: HeadersInit, call: CertificateCall = {}): Promise<Uint8Array> {
    const asked = { csr: workload.csrPem, ...call };
    const outcome = await callWithClient(grpcWeb, service, asked, headers);
    if (!("certChain" in outcome)) throw new Error(outcome.message);
    const der = Pem.parse(outcome.certChain[0] ?? "", ["CERTIFICATE"]);
    if (!der) throw new Error("no leaf");
    return der;
  }

  async function issued(headers: HeadersInit, call?: CertificateCall) {
    service.takeAudits();
    const der = await issue(headers, call);
    const [audit] = service.takeAudits();
    await service.publish();
    const { entries } = await publishedLog(service);
    const { logIndex } = audit ?? {};
    const entry = entries[Number(logIndex)];
    return { der, audit, entry };
  }

  describe("a CA with an issuance log", () => {
    test("has every certificate in the log, at the index that the audit trail names", async () => {
      const claims = serviceAccountClaims(issuers.cluster, "foo:bar", service.now());
      const { jti } = claims;
      const token = await mintToken(service.key, claims);
      const { der, audit, entry } = await issued({ authorization: `Bearer ${token}` });
      expect(audit).toMatchObject({ outcome: "issued", log: `${logOrigin}/0` });
      expect(entry).toEqual({
        kind: "certificate",
        requestedSeconds: 0,
        grantedSeconds: expect.any(Number),
        certificate: der,
        at: service.now().toISOString(),
        proof: "token",
        cluster: "Kubernetes",
        issuer: issuers.cluster,
        pod: { name: "bar-0", uid: "2d5b7f6a-0f0e-4bb5-8a3f-6a0f2f3c4d21" },
        node: { name: "node-1", uid: "55d4cb0f-6a8a-4b6e-a0a6-0d3a5f6a8a11" },
        tokenId: jti,
      });
    });

    test("has the authority that signs before its certificates, and once", async () => {
      const { entry } = await issued(await bearer(service));
      const { entries } = await publishedLog(service);
      const authorities = entries.filter(({ proof }) => proof === "authority");
      expect(authorities).toEqual([entries[0]]);
      const { certificate } = authorities[0] ?? {};
      const signed = new X509Certificate(Buffer.from(entry?.certificate ?? []));
      expect(signed.verify(new X509Certificate(Buffer.from(certificate ?? [])).publicKey)).toBe(
        true,
      );
    });

    const signer = `spiffe://${trustDomain}/ns/istio-system/sa/signer`;

    test.each<[string, NonNullable<CertificateCall["metadata"]>, object]>([
      [
        "a pod, by the signer's own token",
        { ImpersonatedIdentity: `spiffe://${trustDomain}/ns/foo/sa/other` },
        { impersonator: signer, tokenId: expect.not.stringMatching("jti-of-web") },
      ],
      [
        "a service, by the requester's token",
        {
          CertSigner: "serving",
          DnsNames: ["a.foo.svc"],
          Requester: "foo/web",
          TokenId: "jti-of-web",
        },
        { impersonator: signer, tokenId: "jti-of-web" },
      ],
    ])("names for whom a signer of the cluster asked: %s", async (_, named, expected) => {
      const metadata = { ...named, PodName: "web-0", PodUid: "web-uid", NodeName: "worker-3" };
      const { entry } = await issued(await bearer(service, "istio-system:signer"), { metadata });
      const pod = { name: "web-0", uid: "web-uid" };
      expect(entry).toMatchObject({ ...expected, pod, node: { name: "worker-3" } });
    });

    test("logs nothing that proves an identity: no token and no CSR", async () => {
      const { authorization } = await bearer(service);
      const { entry } = await issued({ authorization });
      const { certificate: _, ...circumstances } = entry ?? {};
      const [, payload = "", signature = ""] = authorization.split(".");
      for (const secret of [payload, signature, workload.csrPem.slice(40, 80)]) {
        expect(JSON.stringify(circumstances)).not.toContain(secret.slice(0, 30));
      }
    });

    test("logs no refused call", async () => {
      await service.publish();
      const before = await publishedLog(service);
      await expect(issue({ authorization: "Bearer none" })).rejects.toThrow();
      await expect(issue(await bearer(service), { csr: "none" })).rejects.toThrow();
      await service.publish();
      expect((await publishedLog(service)).checkpoint).toEqual(before.checkpoint);
    });

    test("logs calls that come together, each once", async () => {
      service.takeAudits();
      const headers = await bearer(service);
      const ders = await Promise.all(Array.from({ length: 40 }, () => issue(headers)));
      const indexes = service.takeAudits().map(({ logIndex }) => Number(logIndex));
      expect(new Set(indexes).size).toBe(40);
      await service.publish();
      const { entries } = await publishedLog(service);
      const logged = indexes.map((index) => [...(entries[index]?.certificate ?? [])].join());
      expect(logged.toSorted()).toEqual(ders.map((der) => [...der].join()).toSorted());
    });

    test.each(["0/checkpoint", "0/tile/entries/000.p/1", "logs.json"])(
      "shows %s to nobody without the token of a reader",
      async (path) => {
        for (const token of ["", "another-token-of-thirty-two-characters"]) {
          const response = await service.send(reading(path, token));
          expect(response.status).toBe(401);
          expect(await response.text()).not.toContain(logOrigin);
        }
      },
    );

    test.each(["1/checkpoint", "0/stage.sqlite", "0/tile/0/999"])(
      "has nothing at %j",
      async (path) => {
        expect((await service.send(reading(path))).status).toBe(404);
      },
    );
  });
}
