import type { X509Certificate } from "node:crypto";
import type { EventName, OperationLog } from "../../foundation/events.ts";
import { InterruptibleSleep } from "../../foundation/pause.ts";
import { Subscribers } from "../../foundation/subscribers.ts";
import { shownSerialNumber } from "../../pki/encoding/serial-number.ts";
import { type Crl, namedIn } from "../../pki/x509/crl/crl.ts";
import {
  crlsPem,
  type MeshAuthorities,
  MeshCrls,
  type UsableCrls,
} from "../../program/bundle/crls.ts";
import type { TrustRoots } from "./trust-roots.ts";

/** A certificate in use. */
interface InUse {
  readonly chain: readonly [X509Certificate, ...X509Certificate[]];
}

/** The identities of the agent, whose certificates a CRL may name. */
export interface RenewableIdentities {
  all(): readonly {
    readonly svid: InUse | undefined;
    /** Renews the certificate in use at once if peers refuse it. */
    renewIf(isRefused: (svid: InUse) => boolean, event: EventName): void;
  }[];
  readonly changes: { add(listener: () => void): () => void };
}

/** The dependencies of {@link Revocation}. */
export interface RevocationPorts {
  readonly trust: TrustRoots;
  readonly identities: RenewableIdentities;
  readonly clock: () => Date;
  readonly log: OperationLog;
  readonly metrics: { crlsRefused(count: number): void };
}

/** The time after which secrets are served without waiting for the first CRLs. */
const firstAnswerMilliseconds = 2_000;

const longestSleepMilliseconds = 3_600_000;

/** How long the CRLs in use stay while a new root has none yet. The CA publishes both within seconds. */
const awaitedMilliseconds = 10_000;

/**
 * The CRLs that the CA publishes, as long as verifiers can use them. They stop being served before one
 * of them runs out, and while a root has none: Envoy would refuse every certificate of that root. A new root leaves them
 * in force for a moment, until its own is there. Otherwise each rotation would let revoked certificates in.
 */
export class Revocation {
  readonly changes: Subscribers = new Subscribers();
  /** Notified when the CRL of a new root is to be fetched at once. */
  readonly awaiting: Subscribers = new Subscribers();
  readonly #ports: RevocationPorts;
  readonly #known = new MeshCrls();
  readonly #sleep: InterruptibleSleep;
  readonly #asked = Promise.withResolvers<void>();
  #usable: UsableCrls = { crls: [], current: [], missing: [], until: undefined };
  /** The fingerprints of the roots that had CRLs when all of them had. */
  #covered: ReadonlySet<string> = new Set();
  #awaitedUntil: Date | undefined;
  #pem = "";
  #isAbsent = false;

  constructor(ports: RevocationPorts) {
    this.#ports = ports;
    this.#sleep = new InterruptibleSleep(ports.clock);
  }

  /** Looks again whenever the roots, an intermediate or the time change, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { trust, identities, clock } = this.#ports;
    const again = (): void => this.#refreshNow();
    const unsubscribe = [trust.changes.add(again), identities.changes.add(again)];
    while (!signal.aborted) {
      this.#refresh();
      const latest = new Date(clock().getTime() + longestSleepMilliseconds);
      await this.#sleep.until(this.#usable.until ?? latest, signal);
    }
    for (const end of unsubscribe) end();
  }

  /** Whether the CA publishes CRLs, or did lately. */
  get isPublished(): boolean {
    return this.#known.all.length > 0;
  }

  /** Whether the CA answered that it publishes none. */
  get isAbsent(): boolean {
    return this.#isAbsent;
  }

  /** Empty while they cannot be used. */
  get crls(): readonly Crl[] {
    return this.#usable.crls;
  }

  /** Whether the CRLs in use stay for a moment, until that of a new root is there. */
  get isAwaiting(): boolean {
    return this.crls.length > 0 && this.#usable.missing.length > 0;
  }

  /** PEM of {@link crls}. */
  get pem(): string {
    return this.#pem;
  }

  /** Every CRL that is known, used or not. */
  get all(): readonly Crl[] {
    return this.#known.all;
  }

  /** Why revoked certificates are not refused; `undefined` while they are, or where the CA publishes none. */
  get fault(): string | undefined {
    if (!this.isPublished || this.crls.length > 0) return undefined;
    const [missing] = this.#usable.missing;
    return missing === undefined
      ? "no revocation list of the CA is current"
      : `revoked certificates are not refused: the root ${missing.subject} has no current revocation list`;
  }

  /** Takes a published document. @returns Whether each of its CRLs was good. */
  take(crls: readonly Crl[]): boolean {
    const { clock, log, metrics } = this.#ports;
    this.#isAbsent = false;
    const faults = this.#known.take(crls, this.#authorities, clock());
    if (faults.length > 0) {
      metrics.crlsRefused(faults.length);
      const detail = [...new Set(faults)].join(", ");
      log.operation({ event: "revocation-lists-refused", level: "error", detail });
    }
    this.#refreshNow();
    this.noteAnswer();
    return faults.length === 0;
  }

  /** Whether an endpoint without CRLs is no fault, because there were none before. */
  mayBeAbsent(): boolean {
    this.noteAnswer();
    const mayBeAbsent = !this.#known.hasCurrent(this.#ports.clock());
    if (mayBeAbsent && !this.#isAbsent) {
      this.#isAbsent = true;
      this.changes.notify();
    }
    return mayBeAbsent;
  }

  /** Records that the CA has been asked. */
  noteAnswer(): void {
    this.#asked.resolve();
  }

  /** Resolves when the CA has been asked once, or after a while. A proxy that starts gets the CRLs with its roots. */
  async settled(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, firstAnswerMilliseconds);
    });
    await Promise.race([this.#asked.promise, late]);
    clearTimeout(timer);
  }

  get #authorities(): MeshAuthorities {
    const { trust, identities } = this.#ports;
    const intermediates = identities
      .all()
      .flatMap(({ svid }) => svid?.chain.slice(1) ?? [])
      .map((each) => [each.fingerprint256, each] as const);
    return { roots: trust.current, intermediates: [...new Map(intermediates).values()] };
  }

  #refreshNow(): void {
    this.#refresh();
    // The next CRL to run out may be another one.
    this.#sleep.interrupt();
  }

  #refresh(): void {
    const before = this.crls;
    this.#usable = this.#orAwaited(this.#known.usable(this.#authorities, this.#ports.clock()));
    const { crls } = this;
    if (crls.length === before.length && crls.every((crl) => before.includes(crl))) return;
    this.#pem = crlsPem(crls);
    const isUsed = crls.length > 0;
    if (isUsed !== before.length > 0) this.#logUse(isUsed);
    this.#renewRevoked();
    this.changes.notify();
  }

  /** The same, or the current CRLs while those in use leave nothing but new roots out. */
  #orAwaited(usable: UsableCrls): UsableCrls {
    const { trust, clock } = this.#ports;
    const { missing, current, until } = usable;
    if (missing.length === 0) {
      this.#covered = new Set(trust.current.map((root) => root.fingerprint256));
      this.#awaitedUntil = undefined;
      return usable;
    }
    const areNew = missing.every((root) => !this.#covered.has(root.fingerprint256));
    if (!areNew || this.crls.length === 0) return usable;
    const now = clock();
    if (this.#awaitedUntil === undefined) this.awaiting.notify();
    this.#awaitedUntil ??= new Date(now.getTime() + awaitedMilliseconds);
    if (now >= this.#awaitedUntil) return usable;
    const end = until && until < this.#awaitedUntil ? until : this.#awaitedUntil;
    return { ...usable, crls: current, until: end };
  }

  /** Peers refuse a revoked certificate. The workload gets another one, unless it is denied as well. */
  #renewRevoked(): void {
    const all = this.#ports.identities.all();
    const own = new Set(all.flatMap(({ svid }) => (svid ? serialOf(svid) : [])));
    const revoked = new Set(this.crls.flatMap((crl) => namedIn(crl, own)));
    if (revoked.size === 0) return;
    for (const each of all) {
      each.renewIf((svid) => revoked.has(serialOf(svid)), "certificate-revoked");
    }
  }

  #logUse(isUsed: boolean): void {
    const { log } = this.#ports;
    if (isUsed) {
      const lists = this.crls.length;
      log.operation({ event: "revocation-lists-used", level: "info", lists });
    } else {
      const detail = this.fault ?? "the CA publishes no revocation list any more";
      log.operation({ event: "revocation-lists-unused", level: "error", detail });
    }
  }
}

/** As {@link namedIn} compares it. */
const serialOf = ({ chain: [leaf] }: InUse): string => shownSerialNumber(leaf.serialNumber);
