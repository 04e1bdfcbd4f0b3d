import { createClient } from "@connectrpc/connect";
import { CaError, messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { newTrace, type TraceContext, traceFields } from "../../foundation/headers.ts";
import { waitFor } from "../../foundation/pause.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import { JwtSvidService } from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { type JwtSvid, readJwtSvid } from "../../pki/jose/jwt-svid.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import type { JwtBundles } from "../trust/bundles.ts";
import type { CaClient } from "./ca-client.ts";
import { IssuanceError } from "./x509-svid.ts";

/** A JWT-SVID with its token, for the workload that it names. */
export interface HeldToken extends JwtSvid {
  readonly token: string;
  /** Half of its life, by the agent's own clock. */
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
  failure?: { readonly error: unknown; readonly until: number } | undefined;
  pending?: Promise<void> | undefined;
}

/** Concurrent requests to the CA, those that wait for their turn, and the answers that are remembered. */
const maximumRequests = 8;
const maximumPending = 64;
const maximumStates = 1_000;

/** A failure is repeated for this long without a call: a program that retries in a loop costs the CA nothing. */
const failureMilliseconds = 5_000;

/** Whoever has a good token waits no longer for its successor, however slow the CA is. */
const patienceMilliseconds = 1_000;

/**
 * The JWT-SVIDs of the agent's identities. A token is given out until half of its life is over, and beyond that only
 * while the CA cannot be reached. One of a withdrawn key is never given out.
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

  /** @throws IssuanceError The same for some seconds after a failure. */
  async obtain(spiffeId: SpiffeId, audiences: readonly string[]): Promise<HeldToken> {
    const wanted = [...new Set(audiences)].toSorted();
    const state = this.#stateOf(JSON.stringify([spiffeId, ...wanted]));
    const now = this.#ports.clock();
    const held = this.#usable(state, now);
    if (held && now < held.renewsAt) return held;
    if (!state.failure || now.getTime() >= state.failure.until) {
      state.pending ??= this.#renew(state, spiffeId, wanted);
      await (held ? waitFor(state.pending, patienceMilliseconds) : state.pending);
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

  /** The state of a key, which is now the one used last. The first without a request under way makes room. */
  #stateOf(key: string): TokenState {
    const state = this.#states.get(key) ?? {};
    this.#states.delete(key);
    this.#states.set(key, state);
    if (this.#states.size > maximumStates) {
      const [oldest] = [...this.#states].find(([, { pending }]) => !pending) ?? [];
      if (oldest !== undefined) this.#states.delete(oldest);
    }
    return state;
  }

  /** Never rejects: a failure is kept in the state. */
  async #renew(state: TokenState, spiffeId: SpiffeId, audiences: readonly string[]): Promise<void> {
    const { clock, log } = this.#ports;
    const trace = newTrace();
    const about = { spiffeId, audiences: audiences.join(" "), ...traceFields(trace) };
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
      // What the CA refuses now must not live on in the agent.
      if (fault !== "authority-unreachable") state.held = undefined;
      state.failure = { error, until: clock().getTime() + failureMilliseconds };
      const detail = messageOf(error);
      log.operation({ event: "token-not-obtained", level: "warning", ...about, fault, detail });
    } finally {
      this.#pending--;
      state.pending = undefined;
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
    return readJwtSvid(token, now);
  } catch (error) {
    if (!(error instanceof CaError)) throw error;
    throw new IssuanceError("answer-malformed", error.message, error);
  }
}
