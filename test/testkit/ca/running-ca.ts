import type { Hono } from "hono";
import type { TokenIssuer } from "../../../src/authn/token-issuer.ts";
import type { AppendOnlyLog } from "../../../src/ca/issuance/issuance-log.ts";
import type { Quotas } from "../../../src/ca/issuance/quotas.ts";
import { recordingIn } from "../../../src/ca/issuance/record-issuance.ts";
import type { Mint } from "../../../src/ca/mint.ts";
import { foundIfEmpty, Rotation } from "../../../src/ca/rotation/rotate.ts";
import { Composition, type Platform } from "../../../src/config/composition.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import type { PlatformKeys } from "../../../src/config/platform-keys.ts";
import { nodeCryptoProvider } from "../../../src/node/node-crypto-provider.ts";
import type { CryptoProvider } from "../../../src/pki/crypto-provider.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import type { CertificateAuthority } from "../../../src/transport/certificate-authority.ts";
import { PublishedLog, type ReadableLog } from "../../../src/transport/http/log-routes.ts";
import { CaRoutes } from "../../../src/transport/http/routes.ts";
import type { ServiceUnderTest } from "../../contract/service-under-test.ts";
import type { TokenKey } from "../callers/tokens.ts";
import { issuerWithKeys, randomKek, withTenantBeside } from "../configuration.ts";
import { createEventRecorder, type EventRecorder } from "../log/event-recorder.ts";
import { hangMilliseconds } from "../time/hang-limit.ts";
import { createMemoryStore, type MemoryStore } from "./memory-store.ts";
import { addNamesake, changesOfNamesake } from "./namesake.ts";

/** A CA from the composition root, over a memory store and a clock that the test moves. */
export interface RunningCa {
  readonly app: Hono;
  readonly certificateAuthority: CertificateAuthority;
  readonly issuers: readonly TokenIssuer[];
  readonly mint: Mint;
  readonly store: MemoryStore;
  readonly log: EventRecorder;
  readonly now: () => Date;
  /** Moves the clock on. */
  readonly pass: (seconds: number) => void;
  /**
   * Mints the first authority into an empty store, as the cron does, beside a CA of the same name. Then the clock, which was an hour ahead for a
   * first request, is set back.
   */
  readonly found: () => Promise<void>;
  readonly signerMints: ReadonlyMap<string, Mint>;
  readonly signerStores: ReadonlyMap<string, MemoryStore>;
  /** Runs the cron, for the named signers as well. */
  readonly rotate: () => Promise<void>;
}

/** WebCrypto, and OpenSSL for the certificates of other CAs. */
const strictProvider: CryptoProvider = {
  ...webCryptoProvider,
  requireReadable: nodeCryptoProvider.requireReadable,
};

const unlimited: Quotas = { caller: () => 0, issuer: () => 0 };

const start = new Date("2026-11-21T12:00:00.250Z");

/** The means of a CA that a test may bring along. */
export interface Means {
  readonly cryptoProvider?: CryptoProvider;
  readonly store?: MemoryStore;
  /** Takes the place of the clock that the test moves. */
  readonly clock?: () => Date;
  /** Has no other tenant beside those of `ISSUERS`, and no namesake. */
  readonly isAlone?: boolean;
  /** Has no root of another CA, as {@link addNamesake} makes it. */
  readonly hasNoNamesake?: boolean;
  readonly quotas?: Quotas;
  readonly issuanceLog?: AppendOnlyLog;
  readonly publishedLog?: ReadableLog;
  readonly keyCustody?: PlatformKeys;
  readonly inBackground?: (work: Promise<void>) => void;
  readonly useToken?: Platform["useToken"];
  readonly idempotency?: Platform["idempotency"];
}

/** A log that demands every entry, of a test that takes them. */
export const demandedLog = (append: AppendOnlyLog["append"]): AppendOnlyLog => ({
  mode: "required",
  append,
  refusal: () => undefined,
  troubles: () => [],
});

/** A CA as contracts see it. @param key Signs the tokens of its issuers. */
export const serviceOf = (
  { app, now, log }: Pick<RunningCa, "app" | "now" | "log">,
  key: TokenKey,
): ServiceUnderTest => ({
  send: async (request) => app.fetch(request),
  key,
  now,
  takeAudits: log.takeAudits,
});

/** @param values Keys of the configuration. The others have values that work. */
export async function startCa(
  values: Readonly<Record<string, unknown>> = {},
  { cryptoProvider = strictProvider, store = createMemoryStore(), ...means }: Means = {},
): Promise<RunningCa> {
  const log = createEventRecorder();
  let now = start;
  const clock = means.clock ?? (() => now);
  const { ISSUERS = [issuerWithKeys] } = values as { readonly ISSUERS?: readonly object[] };
  const configuration = Configuration.parse({
    KEK: randomKek(),
    INCEPTION_DATE: clock().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
    ...values,
    ISSUERS: means.isAlone ? ISSUERS : withTenantBeside(ISSUERS),
  });
  const signerStores = new Map<string, MemoryStore>();
  const signerStore = (signer: string): MemoryStore => {
    const known = signerStores.get(signer) ?? createMemoryStore();
    signerStores.set(signer, known);
    return known;
  };
  const fetching = {
    fetchTrusting: NodeFetch.trusting,
    fetchTimeoutMilliseconds: hangMilliseconds,
  };
  const { quotas = unlimited, keyCustody, inBackground, useToken, idempotency } = means;
  const publishedLog = means.publishedLog && PublishedLog.publish(means.publishedLog);
  const issuanceLog = means.issuanceLog && recordingIn(means.issuanceLog);
  const logs = { issuanceLog, publishedLog, keyCustody, inBackground, useToken, idempotency };
  const platform = { store, signerStore, cryptoProvider, log, clock, fetching, quotas, ...logs };
  const { certificateAuthority, issuers, mint, signerMints } = await Composition.compose(
    configuration,
    platform,
  );
  return {
    app: CaRoutes.create(certificateAuthority),
    certificateAuthority,
    issuers,
    mint,
    store,
    log,
    now: clock,
    pass: (seconds) => {
      now = new Date(now.getTime() + seconds * 1000);
    },
    found: async () => {
      await foundIfEmpty(mint, clock());
      if (!(means.isAlone || means.hasNoNamesake)) {
        await addNamesake(mint, clock());
        store.everyOther = await changesOfNamesake(mint, clock());
      }
      const ahead = new Date(clock().getTime() + 3_600_000);
      // No lease of a KEK reaches as far.
      if (!keyCustody) await certificateAuthority.issuance.authorities.at(ahead);
    },
    signerMints,
    signerStores,
    rotate: () => Rotation.rotateAll([mint, ...signerMints.values()], clock()),
  };
}
