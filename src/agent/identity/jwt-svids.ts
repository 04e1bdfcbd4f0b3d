import { createClient } from "@connectrpc/connect";
import { isRecent } from "../../foundation/caches.ts";
import { CaError, messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { waitFor } from "../../foundation/pause.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import { TraceContext } from "../../foundation/trace-context.ts";
import { JwtSvidService } from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { JwtSvid } from "../../pki/jose/jwt-svid.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import type { JwtBundles } from "../trust/bundles.ts";
import type { CaClient } from "./ca-client.ts";
import { IssuanceError } from "./x509-svid.ts";

/** A JWT-SVID with its token, for the workload that it names. */
export interface HeldToken extends JwtSvid {
  readonly token: string;
  /** When half of its life is over, by the agent's own clock. */
  readonly renewsAt: Date;
}

interface JwtSvidsPorts {
  readonly ca: CaClient;
  readonly bundles: JwtBundles;
  /** Whether the agent is a node proxy, which names the workload in each request. */
  readonly impersonates: boolean;
  readonly clock: () => Date;
  readonly log: OperationLog;
}

/** The state of one identity's tokens for some audiences. */
interface TokenState {
  held?: HeldToken | undefined;
  failure?: { readonly error: unknown; readonly at: Date } | undefined;
  readonly renewals: SingleFlight<void>;
}

/** The bounds of concurrent requests to the CA, of requests that wait, and of cached tokens. */
const maximumRequests = 8;
const maximumPending = 64;
const maximumStates = 1_000;

/** For this long after a failure the CA is not called and the same error is thrown: programs may retry in a loop. */
const failureSeconds = 5;

/** How long a caller waits for a newer token while the cached one is valid. */
const deadlineMilliseconds = 1_000;

/**
 * The JWT-SVIDs of the agent's identities. A token is given out until half of its life is over, and beyond that only
 * while the CA cannot be reached or is slow. A token of a withdrawn key is never given out.
 */
export class JwtSvids {
  readonly #ports: JwtSvidsPorts;
  readonly #requests = new Semaphore(maximumRequests);
  readonly #states = new Map<string, TokenState>();
  readonly #ending = new AbortController();
  #pending = 0;

  constructor(ports: JwtSvidsPorts) {
    this.#ports = ports;
  }

  end(): void {
    this.#ending.abort();
  }

  /**
   * Obtains a token for these audiences, from the cache or from the CA.
   *
   * @throws IssuanceError. For five seconds after a failure it is the same error, without a call.
   */
  async obtain(spiffeId: SpiffeId, audiences: readonly string[]): Promise<HeldToken> {
    const wanted = [...new Set(audiences)].toSorted();
    const state = this.#stateOf(JSON.stringify([spiffeId, ...wanted]));
    const now = this.#ports.clock();
    const held = this.#usable(state, now);
    if (held && now < held.renewsAt) return held;
    if (!isRecent(state.failure?.at, failureSeconds, now)) {
      const renewal = state.renewals.join(() => this.#renew(state, spiffeId, wanted));
      await (held ? waitFor(renewal, deadlineMilliseconds) : renewal);
    }
    const token = this.#usable(state, this.#ports.clock());
    if (token) return token;
    throw state.failure?.error ?? new IssuanceError("validity-unacceptable", "the token expired");
  }

  #usable({ held }: TokenState, now: Date): HeldToken | undefined {
    const { bundles } = this.#ports;
    const isGood = held && now < held.expiresAt;
    return isGood && !bundles.isWithdrawn(held.trustDomain, held.keyId) ? held : undefined;
  }

  /**
   * The state of a cached token, which becomes the most recently used one. A full cache evicts the least recently
   * used one without a request under way.
   */
  #stateOf(key: string): TokenState {
    const state = this.#states.get(key) ?? { renewals: new SingleFlight() };
    this.#states.delete(key);
    this.#states.set(key, state);
    if (this.#states.size > maximumStates) {
      const [oldest] = [...this.#states].find(([, { renewals }]) => !renewals.underWay) ?? [];
      if (oldest !== undefined) this.#states.delete(oldest);
    }
    return state;
  }

  /** Never rejects: a failure is kept in the state. */
  async #renew(state: TokenState, spiffeId: SpiffeId, audiences: readonly string[]): Promise<void> {
    const { clock, log } = this.#ports;
    const trace = TraceContext.create();
    const about = { spiffeId, audiences: audiences.join(" "), ...TraceContext.logFields(trace) };
    this.#pending++;
    try {
      if (this.#pending > maximumPending) {
        throw new IssuanceError("authority-unreachable", "too many tokens are asked for at once");
      }
      const held = await this.#requests.run(() => this.#request(spiffeId, audiences, trace));
      Object.assign(state, { held, failure: undefined });
      const [keyId, expiresAt] = [held.keyId, held.expiresAt.toISOString()];
      log.operation({ event: "token-obtained", level: "info", ...about, keyId, expiresAt });
    } catch (error) {
      const fault = error instanceof IssuanceError ? error.fault : "defect";
      // The CA answered and refuses the token now, so the cached one must not be given out either.
      if (fault !== "authority-unreachable") state.held = undefined;
      state.failure = { error, at: clock() };
      const detail = messageOf(error);
      log.operation({ event: "token-not-obtained", level: "warning", ...about, fault, detail });
    } finally {
      this.#pending--;
    }
  }

  async #request(
    spiffeId: SpiffeId,
    audiences: readonly string[],
    trace: TraceContext,
  ): Promise<HeldToken> {
    const { ca, bundles, impersonates, clock } = this.#ports;
    const request = { audiences: [...audiences], spiffeId: impersonates ? spiffeId : "" };
    const { token } = await ca.call({
      send: (transport, options) =>
        createClient(JwtSvidService, transport).createJwtSvid(request, options),
      signal: this.#ending.signal,
      trace,
    });
    const now = clock();
    const svid = readAnswer(token, now);
    if (svid.spiffeId !== spiffeId) {
      throw new IssuanceError("identity-mismatch", `the token is not for ${spiffeId}`);
    }
    if (svid.audiences.toSorted().join("\n") !== audiences.join("\n")) {
      throw new IssuanceError("answer-malformed", "the token is for other audiences");
    }
    if (bundles.isWithdrawn(svid.trustDomain, svid.keyId)) {
      throw new IssuanceError("authority-withdrawn", "signed by a key that was withdrawn");
    }
    const renewsAt = new Date((now.getTime() + svid.expiresAt.getTime()) / 2);
    return { ...svid, token, renewsAt };
  }
}

function readAnswer(token: string, now: Date): JwtSvid {
  try {
    return JwtSvid.read(token, now);
  } catch (error) {
    if (!(error instanceof CaError)) throw error;
    throw new IssuanceError("answer-malformed", error.message, error);
  }
}
