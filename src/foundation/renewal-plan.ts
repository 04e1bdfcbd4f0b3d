import { Backoff } from "./backoff.ts";

/** When a certificate is renewed: the share of its life that is left then, and by how much chance moves it. */
interface RenewalPolicy {
  readonly graceRatio: number;
  readonly jitter: number;
}

/** The life of a certificate by the agent's clock. */
interface CertificateLife {
  readonly obtainedAt: Date;
  readonly notAfter: Date;
}

/** When a certificate is renewed, and when a failed attempt is repeated. */
export const RenewalPlan = {
  /**
   * The time until a renewal (istio secretcache.go rotateTime): until the grace period at the end of the life begins; zero
   * within that period.
   *
   * @param random At least 0 and less than 1.
   */
  delayMilliseconds(
    { obtainedAt, notAfter }: CertificateLife,
    { graceRatio, jitter }: RenewalPolicy,
    random: number,
    now: Date,
  ): number {
    const ratio = Math.min(1, Math.max(0, graceRatio + jitter * (2 * random - 1)));
    const grace = ratio * (notAfter.getTime() - obtainedAt.getTime());
    return Math.max(0, notAfter.getTime() - now.getTime() - grace);
  },

  /**
   * The instant at which a certificate that was just obtained is renewed. It follows
   * {@link RenewalPlan.delayMilliseconds} but is never now: a grace ratio of 1 must not cause a loop of renewals.
   */
  at(life: CertificateLife, policy: RenewalPolicy, random: number): Date {
    const { obtainedAt, notAfter } = life;
    const delay = RenewalPlan.delayMilliseconds(life, policy, random, obtainedAt);
    const tenth = (notAfter.getTime() - obtainedAt.getTime()) / 10;
    const minimum = Math.max(1_000, Math.min(60_000, tenth));
    return new Date(obtainedAt.getTime() + Math.max(delay, minimum));
  },

  /**
   * The instant of the next attempt after so many failures in a row. The wait is a second, and doubles each time up to two
   * and a half minutes. The CA may ask for a longer one, but gets at most two and a half minutes, and at most a tenth of the
   * life that is left.
   */
  retryAt(
    failures: number,
    random: number,
    now: Date,
    requested: RequestedWait = { seconds: 0, notAfter: undefined },
  ): Date {
    const granted = grantedSeconds(requested, now);
    return new Date(
      now.getTime() + Backoff.milliseconds(Backoff.usual.mesh, failures, random, granted),
    );
  },
};

/** The wait that the CA asks for. */
interface RequestedWait {
  readonly seconds: number;
  /** `notAfter` of the certificate that the workload has until then; `undefined` without one. */
  readonly notAfter: Date | undefined;
}

/** The requested wait, but at most the longest pause after failures, and at most a tenth of the life that is left. */
function grantedSeconds({ seconds, notAfter }: RequestedWait, now: Date): number {
  const left = notAfter ? Math.max(0, notAfter.getTime() - now.getTime()) / 1000 : Infinity;
  return Math.min(seconds, Backoff.usual.mesh.longestMilliseconds / 1000, left / 10);
}
