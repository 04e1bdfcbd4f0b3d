import type { X509Certificate } from "node:crypto";
import { createWorkloadKey } from "../testkit/callers/workload-key.ts";
import { CallFailed, callOnce, framedRequest, type Way } from "./call.ts";
import type { SoakIssuer } from "./issuers.ts";

/** The outcomes of the workloads' calls so far. */
export interface Tally {
  issued: number;
  /** Calls that failed in a way that clients retry, by the server and what ended them. */
  readonly retried: Record<string, number>;
  /** How often a workload was due while as many as possible were calling: the soak itself was late then. */
  late: number;
  /** Faults: certificates that ran out, refusals of good credentials, wrong answers. */
  readonly faults: string[];
}

/** A virtual workload that renews its certificate at half of its life. */
interface Workload {
  readonly account: string;
  readonly spki: string;
  readonly frame: Uint8Array;
  readonly issuer: SoakIssuer;
  /** Milliseconds since 1970. */
  dueAt: number;
  expiresAt: number;
  /** Why its calls since the last certificate failed. */
  readonly failures: string[];
  isCalling: boolean;
}

/** Workloads that come, renew and go until the signal aborts. */
interface Population {
  readonly tally: Tally;
  readonly ended: Promise<void>;
}

const tickMilliseconds = 50;
const callsAtOnce = 24;
/** A workload of a churning mesh lives for as long as a thousand of these. */
const replacementMilliseconds = 500;
const shortestRetry = 500;
const longestRetry = 10_000;

/** The codes that pilot-agent retries: cancelled, deadline exceeded, exhausted, aborted, internal, unavailable. */
const retryable =
  /^status (?:1|4|8|10|13|14)$|^[A-Z_]+$|^connection closed$|^no (?:answer|status)$/;

/** @param wayOf The way that the n-th workload calls now. */
export function populate(
  count: number,
  issuers: readonly SoakIssuer[],
  wayOf: (n: number) => Way,
  signal: AbortSignal,
): Population {
  const tally: Tally = { issued: 0, retried: {}, late: 0, faults: [] };
  const workloads: Workload[] = [];
  const calling = new Set<Promise<void>>();

  async function arrive(n: number, spreadMilliseconds: number): Promise<void> {
    const issuer = issuers[n % issuers.length];
    if (issuer) workloads[n] = await createWorkload(issuer, spreadMilliseconds);
  }

  async function renew(workload: Workload, way: Way): Promise<void> {
    const { issuer, account, frame, spki } = workload;
    try {
      const leaf = await callOnce(way, await issuer.mint(account), frame);
      requireOwn(leaf, account, spki);
      tally.issued += 1;
      workload.failures.length = 0;
      workload.expiresAt = leaf.validToDate.getTime();
      workload.dueAt = (Date.now() + workload.expiresAt) / 2;
    } catch (error) {
      noteFailure(workload, way, error);
    }
  }

  function noteFailure(workload: Workload, { server }: Way, error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    if (error instanceof CallFailed && retryable.test(reason)) {
      const retry = `${server}: ${reason}`;
      tally.retried[retry] = (tally.retried[retry] ?? 0) + 1;
    } else tally.faults.push(reason);
    const { failures } = workload;
    const pause = Math.min(longestRetry, shortestRetry * 2 ** failures.length);
    failures.push(reason);
    workload.dueAt = Date.now() + pause * (0.5 + Math.random() / 2);
    if (workload.expiresAt > Date.now()) return;
    tally.faults.push(
      `a certificate of ${server} ran out before it was renewed: ${failures.join(", ")}`,
    );
    workload.expiresAt = Number.POSITIVE_INFINITY;
  }

  function beginDue(now: number): void {
    for (const [n, workload] of workloads.entries()) {
      if (!workload || workload.isCalling || workload.dueAt > now) continue;
      if (calling.size >= callsAtOnce) {
        tally.late += 1;
        return;
      }
      workload.isCalling = true;
      const call = renew(workload, wayOf(n)).finally(() => {
        workload.isCalling = false;
        calling.delete(call);
      });
      calling.add(call);
    }
  }

  async function live(): Promise<void> {
    for (let n = 0; n < count && !signal.aborted; n++) await arrive(n, 20_000);
    let nextReplacement = Date.now();
    while (!signal.aborted) {
      const now = Date.now();
      beginDue(now);
      if (now >= nextReplacement) {
        nextReplacement = now + replacementMilliseconds;
        await arrive(Math.floor(Math.random() * count), 0);
      }
      await new Promise((resolve) => setTimeout(resolve, tickMilliseconds));
    }
    await Promise.all(calling);
  }

  return { tally, ended: live() };
}

async function createWorkload(issuer: SoakIssuer, spreadMilliseconds: number): Promise<Workload> {
  const name = `w-${crypto.randomUUID().slice(0, 8)}`;
  const { privateKey, csrPem } = await createWorkloadKey(
    `spiffe://cluster.local/ns/soak/sa/${name}`,
  );
  const { x, y } = privateKey.export({ format: "jwk" });
  return {
    account: `soak:${name}`,
    spki: `${x} ${y}`,
    frame: framedRequest(csrPem),
    issuer,
    dueAt: Date.now() + Math.random() * spreadMilliseconds,
    expiresAt: Number.POSITIVE_INFINITY,
    failures: [],
    isCalling: false,
  };
}

/** @throws Error for a certificate of another key or identity. */
function requireOwn(
  { publicKey, subjectAltName }: X509Certificate,
  account: string,
  spki: string,
): void {
  const { x, y } = publicKey.export({ format: "jwk" });
  const [namespace, name] = account.split(":");
  const isOwn =
    `${x} ${y}` === spki &&
    subjectAltName === `URI:spiffe://cluster.local/ns/${namespace}/sa/${name}`;
  if (!isOwn) throw new Error("a certificate of another key or identity");
}
