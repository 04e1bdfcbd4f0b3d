import { randomBytes } from "node:crypto";
import type { AuditEvent } from "../../src/ca/issuance/audit-event.ts";
import { issueCertificate } from "../../src/ca/issuance/issue-certificate.ts";
import { Mint } from "../../src/ca/mint.ts";
import { Composition } from "../../src/config/composition.ts";
import { Configuration } from "../../src/config/configuration.ts";
import { nodeCryptoProvider } from "../../src/node/node-crypto-provider.ts";
import { Schedule } from "../../src/pki/authority/schedule.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { createMemoryStore } from "../../test/testkit/ca/memory-store.ts";
import { jwksOf, type TokenKey } from "../../test/testkit/callers/tokens.ts";
import { mintLasting } from "../workload.ts";

/** The size of a CA: everything of it that may grow. */
export interface Size {
  readonly issuers: number;
  readonly authorities: number;
  /** Namespaces of the callers, all of them behind globs. */
  readonly namespaces: number;
  /** Denials in the configuration, none of them about a caller. */
  readonly denials: number;
}

/** A CA of a size, and a call that its callers make in turn. */
export interface SizedCa {
  readonly call: () => Promise<unknown>;
}

/** The key of all issuers, and the CSR of all callers. */
export interface CallerMaterial {
  readonly key: TokenKey;
  readonly csrPem: string;
}

const log = { audit: () => {}, operation: () => {} };

/** Builds a CA of a size in memory. */
export async function createSizedCa(
  { issuers, authorities, denials }: Size,
  { key, csrPem }: CallerMaterial,
  tokens: readonly string[],
): Promise<SizedCa> {
  const configuration = Configuration.parse({
    ISSUERS: Array.from({ length: issuers }, (_, i) => ({
      issuer: nameOf(i),
      cluster: `cluster-${i}`,
      jwks: jwksOf(key),
      namespaces: ["team-*", "other-*-prod", "shop"],
    })),
    DENIED: Array.from({ length: denials }, (_, i) => ({ subject: `ns/team-denied-${i}/sa/*` })),
    KEK: `bench:${randomBytes(32).toString("base64")}`,
  });
  const store = createMemoryStore();
  const clock = (): Date => new Date();
  const means = { store, cryptoProvider: nodeCryptoProvider, log, clock };
  const fetching = { fetchTrusting: () => fetch };
  const { certificateAuthority, mint } = await Composition.compose(configuration, {
    ...means,
    fetching,
  });
  const published = addSeconds(clock(), -2 * mint.phaseLengths.propagationSeconds);
  for (let i = 0; i < authorities; i++) {
    await Mint.mintAuthority(mint, Schedule.first(mint.phaseLengths, addSeconds(published, -i)));
  }
  const { authenticate, issuance } = certificateAuthority;
  const { signal } = new AbortController();
  const request = { csrPem, requestedSeconds: 86_400n, impersonatedIdentity: "", certSigner: "" };
  let next = 0;
  const call = async (): Promise<unknown> => {
    const now = clock();
    const authorization = `Bearer ${tokens[next++ % tokens.length]}`;
    const headers = { get: (name: string) => (name === "authorization" ? authorization : null) };
    const audit: AuditEvent = { event: "create-certificate", outcome: "refused", requestId: "" };
    const caller = await authenticate({ headers }, now);
    return issueCertificate(issuance, caller, request, { now, signal, audit });
  };
  return { call };
}

const nameOf = (i: number): string => `https://cluster-${i}.example`;

/** A token of each namespace, by the issuers in turn. */
export function mintTokens(
  { issuers, namespaces }: Size,
  { key }: CallerMaterial,
): Promise<readonly string[]> {
  return Promise.all(
    Array.from({ length: namespaces }, (_, i) =>
      mintLasting(key, nameOf(i % issuers), `team-${i}:web`),
    ),
  );
}
