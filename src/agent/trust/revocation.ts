import type { X509Certificate } from "node:crypto";
import type { OperationLog } from "../../foundation/events.ts";
import { InterruptibleSleep } from "../../foundation/interruptible-sleep.ts";
import { waitFor } from "../../foundation/pause.ts";
import { SerialNumber } from "../../pki/encoding/serial-number.ts";
import { Crl } from "../../pki/x509/crl/crl.ts";
import { crlsPem } from "../../program/bundle/crl-document.ts";
import { type MeshAuthorities, MeshCrls } from "../../program/bundle/crls.ts";
import { Subscribers } from "../subscribers.ts";
import type { TrustRoots } from "./trust-roots.ts";

interface InUse {
  readonly chain: readonly [X509Certificate, ...X509Certificate[]];
}

/** The identities of the agent, whose certificates a CRL may revoke. */
interface RenewableIdentities {
  all(): readonly {
    readonly svid: InUse | undefined;
    /** Renews at once if `isRefused` holds for the certificate in use. */
    renewIf(isRefused: (svid: InUse) => boolean, event: "certificate-revoked"): void;
  }[];
  readonly changes: { add(listener: () => void): () => void };
}

interface RevocationPorts {
  readonly trust: TrustRoots;
  readonly identities: RenewableIdentities;
  readonly clock: () => Date;
  readonly log: OperationLog;
  readonly metrics: { crlsRefused(count: number): void };
}

/** How long secrets wait for the first CRLs before they are served without. */
const firstAnswerMilliseconds = 2_000;

const longestSleepMilliseconds = 3_600_000;

/**
 * The CRLs that the CA publishes, while verifiers can use them. They are not served shortly before one of them expires,
 * nor while a root has none: Envoy would refuse every certificate of that root. A new root is held back for a moment,
 * until its CRL has come.
 */
export class Revocation {
  readonly changes: Subscribers = new Subscribers();
  /** Notified when the CRL of a new root must be fetched at once. */
  readonly awaiting: Subscribers = new Subscribers();
  readonly #ports: RevocationPorts;
  readonly #known = new MeshCrls();
  readonly #sleep: InterruptibleSleep;
  readonly #asked = Promise.withResolvers<void>();
  #usable = this.#known.usable({ roots: [], intermediates: [] }, new Date(0));
  #isSaidUsed = false;
  #pem = "";
  #isAbsent = false;
  #saidFaults = "";

  constructor(ports: RevocationPorts) {
    this.#ports = ports;
    this.#sleep = new InterruptibleSleep(ports.clock);
  }

  /** Decides anew which CRLs are used when roots or intermediates change or a CRL expires, until the signal aborts. */
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

  /** Whether CRLs of the CA are known, even if it publishes none any more. */
  get isPublished(): boolean {
    return this.#known.all.length > 0;
  }

  /** Whether the CA answered that it publishes none. */
  get isAbsent(): boolean {
    return this.#isAbsent;
  }

  /** The CRLs in use; empty while they cannot be used. */
  get crls(): readonly Crl[] {
    return this.#usable.crls;
  }

  /** Whether a new root waits for its CRL, which must be fetched at once. */
  get isAwaiting(): boolean {
    return this.#usable.isAwaiting;
  }

  get pem(): string {
    return this.#pem;
  }

  /** All CRLs that were read, including those that are not used. */
  get all(): readonly Crl[] {
    return this.#known.all;
  }

  /** Why revoked certificates are not refused; `undefined` while they are, or where the CA publishes none. */
  get fault(): string | undefined {
    if (!this.isPublished || this.crls.length > 0) return undefined;
    const [missing] = this.#usable.missing;
    return missing === undefined
      ? "no CRL of the CA is current"
      : `revoked certificates are not refused: the root ${missing.subject} has no current CRL`;
  }

  /** Whether a CRL in use has the certificate's serial number, of whatever issuer. */
  names(leaf: X509Certificate): boolean {
    const own = new Set([SerialNumber.shown(leaf.serialNumber)]);
    return this.crls.some((crl) => Crl.named(crl, own).length > 0);
  }

  /** Accepts the CRLs of an earlier run, in use until newer ones come. An expired one is no fault. */
  recall(crls: readonly Crl[]): void {
    this.#known.take(crls, this.#authorities, this.#ports.clock());
    this.#refreshNow();
  }

  /** Accepts a published document. @returns Whether every CRL was accepted, or is of an unknown issuer. */
  take(crls: readonly Crl[]): boolean {
    this.#isAbsent = false;
    const all = this.#known.take(crls, this.#authorities, this.#ports.clock());
    const faults = all.filter((fault) => fault !== "issuer-unknown");
    this.#logFaults(all, faults);
    this.#refreshNow();
    this.noteAnswer();
    return faults.length === 0;
  }

  /**
   * Logs errors, but not the same information twice in a row. A CRL without a known issuer is no error, because a CRL
   * often comes before its root, and some CAs publish CRLs of authorities that this mesh never meets.
   */
  #logFaults(all: readonly string[], faults: readonly string[]): void {
    const { log, metrics } = this.#ports;
    const detail = [...new Set(all)].join(", ");
    const isSaid = faults.length === 0 && detail === this.#saidFaults;
    this.#saidFaults = detail;
    if (faults.length > 0) metrics.crlsRefused(faults.length);
    if (detail === "" || isSaid) return;
    const level = faults.length > 0 ? "error" : "info";
    log.operation({ event: "revocation-lists-refused", level, detail });
  }

  /** Records that the endpoint has no CRLs. @returns Whether that is acceptable: it is unless an earlier CRL is still current. */
  mayBeAbsent(): boolean {
    this.noteAnswer();
    const mayBeAbsent = !this.#known.hasCurrent(this.#ports.clock());
    if (mayBeAbsent && !this.#isAbsent) {
      this.#isAbsent = true;
      this.changes.notify();
    }
    return mayBeAbsent;
  }

  noteAnswer(): void {
    this.#asked.resolve();
  }

  /** Resolves after the CA's first answer, or two seconds, so that a starting proxy gets roots with their CRLs. */
  async settled(): Promise<void> {
    await waitFor(this.#asked.promise, firstAnswerMilliseconds);
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
    // The next CRL to expire may be another one.
    this.#sleep.interrupt();
  }

  #refresh(): void {
    const { crls: before, isAwaiting: wasAwaiting } = this;
    this.#usable = this.#known.usable(this.#authorities, this.#ports.clock());
    const { crls, isAwaiting } = this;
    if (isAwaiting && !wasAwaiting) this.awaiting.notify();
    const isSame = crls.length === before.length && crls.every((crl) => before.includes(crl));
    if (!isSame) this.#pem = crlsPem(crls);
    this.#ports.trust.holdBack(this.#usable.awaited);
    const isUsed = crls.length > 0;
    // Not logged while a CRL is awaited: after an immediate taint, the CRL of the only root comes within a moment.
    if (isUsed !== this.#isSaidUsed && (isUsed || !isAwaiting)) this.#logUse(isUsed);
    if (isSame) return;
    this.#renewRevoked();
    this.changes.notify();
  }

  /** Renews revoked certificates, which peers refuse. The CA issues new ones unless it denies the identity, too. */
  #renewRevoked(): void {
    const all = this.#ports.identities.all();
    const own = new Set(all.flatMap(({ svid }) => (svid ? serialOf(svid) : [])));
    const revoked = new Set(this.crls.flatMap((crl) => Crl.named(crl, own)));
    for (const each of all) {
      each.renewIf((svid) => revoked.has(serialOf(svid)), "certificate-revoked");
    }
  }

  #logUse(isUsed: boolean): void {
    const { log } = this.#ports;
    this.#isSaidUsed = isUsed;
    if (isUsed) {
      const lists = this.crls.length;
      log.operation({ event: "revocation-lists-used", level: "info", lists });
    } else {
      const detail = this.fault ?? "the CA publishes no CRL any more";
      log.operation({ event: "revocation-lists-unused", level: "error", detail });
    }
  }
}

/** The serial number in the form that {@link Crl.named} compares. */
const serialOf = ({ chain: [leaf] }: InUse): string => SerialNumber.shown(leaf.serialNumber);
