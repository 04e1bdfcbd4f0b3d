import { addSeconds, Validity } from "../../../src/pki/x509/validity.ts";
import { type Random, seededRandom } from "../random.ts";
import { Calendar } from "./calendar.ts";
import type { ClientRules } from "./clients.ts";
import { Meter } from "./meter.ts";
import type { Scenario } from "./scenario.ts";
import type { Server } from "./server.ts";

/** The parameters of one run. */
export interface StormSetting {
  readonly workloads: number;
  /** The rules of each client, with its share of the workloads. The shares add up to 1. */
  readonly mix: readonly (readonly [rules: ClientRules, share: number])[];
  readonly scenario: Scenario;
  readonly lifetimeSeconds: number;
  /** The time between the server's answer and its receipt. */
  readonly latencySeconds: number;
  readonly seed: number;
}

/** The counts of one run. Every call is served, refused, unanswered, in vain, or under way at the end. */
export interface StormOutcome {
  readonly calls: number;
  readonly served: number;
  /** Refused by a server without a place. */
  readonly refused: number;
  /** Without any answer, because the server's kernel ignored the connection. */
  readonly unanswered: number;
  /** During the outage. */
  readonly inVain: number;
  readonly underWay: number;
  /** Certificates that a workload came to need. Each need ends with one certificate. */
  readonly needs: number;
  /** Certificates that expired before their workload had another one. */
  readonly expired: number;
  /** Seconds from the beginning of the storm until its last workload is served, if it was. */
  readonly lastServedSeconds: number | undefined;
  readonly callsPerSecond: Float64Array;
  readonly servedPerSecond: Float64Array;
}

/** Every certificate is bounded by its lifetime alone. */
const authority: Validity = { notBefore: new Date(0), notAfter: new Date(8.64e15) };
const start = new Date("2026-01-01T00:00:00Z");
const never = Number.POSITIVE_INFINITY;
/** No client asks again sooner: a key, a CSR and a call take as long. */
const quickestSeconds = 0.05;

/** Simulates one storm in virtual time. The outcome depends on the setting and the seed alone. */
export function simulateStorm(setting: StormSetting, server: Server): StormOutcome {
  return new Storm(setting, server).run();
}

class Storm {
  readonly #setting: StormSetting;
  readonly #server: Server;
  readonly #random: Random;
  readonly #fraction: () => number;
  readonly #rules: readonly ClientRules[];
  readonly #calendar: Calendar;
  readonly #calls: Meter;
  readonly #served: Meter;
  /** Of each workload: its client, the end of its leaf (0 for none), its failed attempts in a row. */
  readonly #client: Uint8Array;
  readonly #leafEnds: Float64Array;
  readonly #failures: Uint32Array;
  /** The first call for the certificate that it needs, or infinity. */
  readonly #needsSince: Float64Array;
  /** The instant at which it must have another certificate, or infinity. */
  readonly #upsetAt: Float64Array;
  readonly #underWay: Uint8Array;
  #counts = { refused: 0, unanswered: 0, inVain: 0, underWay: 0, needs: 0, expired: 0 };
  #stillToServe = 0;
  #lastServedAt = 0;

  constructor(setting: StormSetting, server: Server) {
    const { workloads, scenario, mix, seed } = setting;
    this.#setting = setting;
    this.#server = server;
    this.#random = seededRandom(seed);
    this.#fraction = this.#random.fraction;
    this.#rules = mix.map(([rules]) => rules);
    this.#calendar = new Calendar(workloads);
    this.#calls = new Meter(scenario.endsAt);
    this.#served = new Meter(scenario.endsAt);
    this.#client = new Uint8Array(workloads);
    this.#leafEnds = new Float64Array(workloads);
    this.#failures = new Uint32Array(workloads);
    this.#needsSince = new Float64Array(workloads).fill(never);
    this.#upsetAt = new Float64Array(workloads).fill(never);
    this.#underWay = new Uint8Array(workloads);
  }

  run(): StormOutcome {
    for (let workload = 0; workload < this.#setting.workloads; workload++) this.#settle(workload);
    const { endsAt } = this.#setting.scenario;
    for (;;) {
      const { nextDone } = this.#server;
      const { earliest } = this.#calendar;
      if (Math.min(nextDone, earliest) >= endsAt) return this.#outcome();
      if (nextDone <= earliest) this.#finish(nextDone);
      else this.#ask(this.#calendar.take(), earliest);
    }
  }

  /** Puts a workload into the mesh as it is when the run starts. */
  #settle(workload: number): void {
    const { scenario, workloads, lifetimeSeconds } = this.#setting;
    this.#client[workload] = this.#clientOf((workload + 0.5) / workloads);
    const { upheaval, startSeconds } = scenario;
    if (upheaval && this.#random.chance(upheaval.share)) {
      const { followsBundle } = this.#rulesOf(workload);
      const { at, seconds, followSeconds } = upheaval;
      this.#upsetAt[workload] =
        at + this.#random.between(0, followsBundle ? followSeconds : seconds);
    }
    if (startSeconds !== undefined) {
      this.#schedule(workload, this.#random.between(0, startSeconds));
      return;
    }
    // In a calm mesh each workload is anywhere between two renewals.
    const wait = this.#renewalWait(workload, 0);
    const age = this.#random.between(0, wait);
    this.#leafEnds[workload] = lifetimeSeconds - age;
    this.#schedule(workload, wait - age);
  }

  #clientOf(position: number): number {
    let upTo = 0;
    return Math.max(
      0,
      this.#setting.mix.findIndex(([, share]) => {
        upTo += share;
        return position < upTo;
      }),
    );
  }

  #rulesOf(workload: number): ClientRules {
    const rules = this.#rules[this.#client[workload] ?? 0];
    if (!rules) throw new RangeError("a mix needs a client");
    return rules;
  }

  #schedule(workload: number, at: number): void {
    this.#calendar.add(workload, Math.min(at, this.#upsetAt[workload] ?? never));
  }

  #ask(workload: number, now: number): void {
    if (now >= (this.#upsetAt[workload] ?? never)) {
      this.#upsetAt[workload] = never;
      this.#leafEnds[workload] = 0;
      this.#failures[workload] = 0;
    }
    const { outage } = this.#setting.scenario;
    this.#beginNeed(workload, now);
    if (outage && outage[0] <= now && now < outage[1]) {
      this.#endure(workload, now, outage[1]);
      return;
    }
    this.#calls.count(now);
    const { opensConnections, connectTimeoutSeconds } = this.#rulesOf(workload);
    const reception = this.#server.offer(workload, opensConnections, now);
    if (reception === "served") this.#serve(workload, now);
    else if (reception === "queued") this.#underWay[workload] = 1;
    else {
      const isRefused = reception === "refused";
      this.#counts[isRefused ? "refused" : "unanswered"]++;
      const knownAt = now + (isRefused ? this.#setting.latencySeconds : connectTimeoutSeconds);
      this.#schedule(workload, knownAt + this.#retryWait(workload));
    }
  }

  #beginNeed(workload: number, now: number): void {
    if (this.#needsSince[workload] !== never) return;
    this.#needsSince[workload] = now;
    this.#counts.needs++;
    if (now <= this.#setting.scenario.settlesAt) this.#stillToServe++;
  }

  #retryWait(workload: number): number {
    const failures = (this.#failures[workload] ?? 0) + 1;
    this.#failures[workload] = failures;
    return this.#rulesOf(workload).retryWait(failures, this.#fraction);
  }

  /** Tries in vain until the outage is over. Cycles that repeat are counted together. */
  #endure(workload: number, now: number, until: number): void {
    const { latencySeconds } = this.#setting;
    const { cycle } = this.#rulesOf(workload);
    const cycleSeconds = cycle.seconds + cycle.attempts * latencySeconds;
    let at = now;
    while (at < until) {
      this.#calls.count(at);
      this.#counts.inVain++;
      at += latencySeconds + this.#retryWait(workload);
      const failures = this.#failures[workload] ?? 0;
      // The last cycles are played, so that the first call after the outage comes by chance.
      const cycles = Math.floor((until - at) / cycleSeconds) - 8;
      if (cycles < 1 || failures < cycle.after || failures % cycle.attempts !== 0) continue;
      const end = at + cycles * cycleSeconds;
      this.#calls.spread(cycles * cycle.attempts, at, end);
      this.#counts.inVain += cycles * cycle.attempts;
      this.#failures[workload] = failures + cycles * cycle.attempts;
      at = end;
    }
    this.#schedule(workload, at);
  }

  #finish(now: number): void {
    const workload = this.#server.finish();
    if (workload < 0) return;
    this.#underWay[workload] = 0;
    this.#serve(workload, now);
  }

  #serve(workload: number, now: number): void {
    const { scenario, lifetimeSeconds, latencySeconds } = this.#setting;
    this.#served.count(now);
    const receivedAt = now + latencySeconds;
    if (this.#hasExpired(workload, receivedAt)) this.#counts.expired++;
    if ((this.#needsSince[workload] ?? never) <= scenario.settlesAt) {
      this.#stillToServe--;
      this.#lastServedAt = Math.max(this.#lastServedAt, receivedAt);
    }
    this.#needsSince[workload] = never;
    this.#failures[workload] = 0;
    if ((this.#upsetAt[workload] ?? never) <= receivedAt) this.#upsetAt[workload] = never;
    this.#leafEnds[workload] = receivedAt + lifetimeSeconds;
    const wait = Math.max(quickestSeconds, this.#renewalWait(workload, receivedAt));
    this.#schedule(workload, receivedAt + wait);
  }

  #hasExpired(workload: number, now: number): boolean {
    const end = this.#leafEnds[workload] ?? 0;
    return end > 0 && end < now;
  }

  #renewalWait(workload: number, at: number): number {
    const { lifetimeSeconds } = this.#setting;
    const now = addSeconds(start, at);
    const lifetimes = { defaultSeconds: lifetimeSeconds, maximumSeconds: lifetimeSeconds };
    const validity = Validity.ofLeaf(0n, lifetimes, authority, now);
    return this.#rulesOf(workload).renewal(validity, now, this.#fraction());
  }

  #outcome(): StormOutcome {
    const { beginsAt, endsAt } = this.#setting.scenario;
    let { expired } = this.#counts;
    for (let workload = 0; workload < this.#setting.workloads; workload++) {
      if (this.#hasExpired(workload, endsAt)) expired++;
    }
    const isOver = this.#stillToServe === 0;
    return {
      ...this.#counts,
      expired,
      underWay: this.#underWay.reduce((sum, each) => sum + each, 0),
      calls: this.#calls.total,
      served: this.#served.total,
      lastServedSeconds: isOver ? Math.max(0, this.#lastServedAt - beginsAt) : undefined,
      callsPerSecond: this.#calls.perSecond(),
      servedPerSecond: this.#served.perSecond(),
    };
  }
}
