import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { issueCertificate } from "../../../src/ca/issuance/issue-certificate.ts";
import type { BucketLog } from "../../../src/node/log/bucket-log.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { Sequencer } from "../../../src/tlog/sequencer/sequencer.ts";
import { bearer, callWithClient, grpcWeb } from "../../contract/rpc-calls.ts";
import { issuerTables, type ServiceUnderTest } from "../../contract/service-under-test.ts";
import { type RunningCa, startCa } from "../ca/running-ca.ts";
import { createTokenKey, jwksOf } from "../callers/tokens.ts";
import { createWorkload } from "../callers/workload.ts";
import { type MemoryObjects, memoryOrigin, memoryParts } from "./memory-log.ts";

/** A CA with a log in memory, whose routes a server on the loopback address has. */
export interface LoggedCa {
  readonly ca: RunningCa;
  readonly url: string;
  readonly token: string;
  readonly verifierKey: string;
  readonly objects: MemoryObjects;
  readonly log: Sequencer;
  /** Issues a certificate to an account, `namespace:name`. @returns Its PEM. */
  readonly issue: (account?: string) => Promise<string>;
  /** Issues a certificate to who shows one. @returns Its PEM. */
  readonly renew: (leafPem: string) => Promise<string>;
  /** The certificates of its authorities, PEM. */
  readonly bundle: () => Promise<string>;
  /** Publishes another history, of these entries, under the same key or under a new one, which it announces. */
  readonly fork: (entries: readonly Bytes[], key?: "same" | "new") => Promise<void>;
  readonly end: () => void;
}

const loggedToken = "the-token-of-a-reader-of-the-log-0002";

/**
 * @param otherShards The names of shards that the server names and does not have.
 * @param values Keys of the configuration.
 * @param another The log that it has in place of the one in memory.
 */
export async function startLoggedCa({
  otherShards = [],
  values = {},
  another,
}: {
  readonly otherShards?: readonly string[];
  readonly another?: Pick<BucketLog, "issuanceLog" | "publishedLog">;
  readonly values?: Readonly<Record<string, unknown>>;
} = {}): Promise<LoggedCa> {
  const parts = memoryParts();
  const log = await Sequencer.open(parts);
  const verifierKey = log.verifierKey ?? "";
  let announcedKey = verifierKey;
  const key = await createTokenKey("ES256", "k1");
  const ISSUERS = [{ ...issuerTables.cluster, jwks: jwksOf(key) }];
  const ca = await startCa(
    { ISSUERS, ...values },
    // Its log begins with its authority alone.
    {
      hasNoNamesake: true,
      ...(another ?? {
        issuanceLog: {
          mode: "required",
          append: async (entry, _signal, authorities) => {
            const result = await log.append(entry, authorities);
            if ("index" in result) return { origin: memoryOrigin, index: result.index };
            throw new Error(result.detail);
          },
          refusal: () => log.refusal,
          troubles: () => [],
        },
        publishedLog: {
          shards: async () =>
            ["0", ...otherShards].map((shard) => ({
              shard,
              origin: memoryOrigin,
              verifierKey: announcedKey,
            })),
          read: async (_, path) => parts.objects.stored.get(path),
          readers: [loggedToken],
          hasPublicTiles: false,
        },
      }),
    },
  );
  await ca.found();
  const service: ServiceUnderTest = {
    send: async (request) => ca.app.fetch(request),
    key,
    now: ca.now,
    takeAudits: () => [],
  };
  const { csrPem: csr } = await createWorkload();
  const server = createServer(async (request, response) => {
    const headers = Object.entries(request.headers).map(([k, v]): [string, string] => [k, `${v}`]);
    const answer = await ca.app.request(`http://ca.test${request.url}`, { headers });
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    ca,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/log/0`,
    token: loggedToken,
    verifierKey,
    objects: parts.objects,
    log,
    issue: async (account) => {
      const outcome = await callWithClient(
        grpcWeb,
        service,
        { csr },
        await bearer(service, account),
      );
      if (!("certChain" in outcome)) throw new Error(outcome.message);
      return outcome.certChain[0] ?? "";
    },
    renew: async (leafPem) => {
      const { authenticate, issuance } = ca.certificateAuthority;
      const clientCertificate = Pem.parse(leafPem, ["CERTIFICATE"]);
      const caller = await authenticate({ headers: new Headers(), clientCertificate }, ca.now());
      const request = {
        csrPem: csr,
        requestedSeconds: 0n,
        impersonatedIdentity: "",
        certSigner: "",
      };
      const [leaf = ""] = await issueCertificate(issuance, caller, request, {
        now: ca.now(),
        signal: new AbortController().signal,
        audit: { event: "create-certificate", outcome: "refused", requestId: "1" },
      });
      return leaf;
    },
    bundle: async () => {
      const view = await ca.certificateAuthority.issuance.authorities.at(ca.now());
      return view.trustBundle.pem;
    },
    fork: async (entries, key = "same") => {
      const keys = { ...parts.keys, create: () => parts.keys.open("0") };
      const other = memoryParts(key === "same" ? { keys } : {});
      const forked = await Sequencer.open(other);
      announcedKey = forked.verifierKey ?? "";
      for (const entry of entries) await forked.append(entry);
      await forked.publish();
      parts.objects.stored.clear();
      for (const [path, octets] of other.objects.stored) parts.objects.stored.set(path, octets);
    },
    end: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
