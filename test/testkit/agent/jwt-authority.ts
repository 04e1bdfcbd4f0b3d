import { type ConnectError, createRouterTransport } from "@connectrpc/connect";
import type { RequestSettings } from "../../../src/agent/configuration/ca-settings.ts";
import { CaClient } from "../../../src/agent/identity/ca-client.ts";
import { JwtSvids } from "../../../src/agent/identity/jwt-svids.ts";
import { JwtBundles } from "../../../src/agent/trust/bundles.ts";
import {
  type CreateJwtSvidRequest,
  JwtSvidService,
} from "../../../src/gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { JwtSvidKeys } from "../../../src/pki/jose/jwt-svid-keys.ts";
import { type Claims, createTokenKey, mintToken, type TokenKey } from "../callers/tokens.ts";
import { createEventRecorder, type EventRecorder } from "../log/event-recorder.ts";
import { clusterLocal, workload } from "../pki/certificates.ts";
import { hangMilliseconds } from "../time/hang-limit.ts";

/** An agent's tokens, and the CA behind them, of which a test is the mind. */
export interface JwtAuthority {
  readonly jwtSvids: JwtSvids;
  readonly jwtBundles: JwtBundles;
  readonly log: EventRecorder;
  /** The requests that the CA has got. */
  readonly requests: readonly CreateJwtSvidRequest[];
  now: Date;
  /** The key that signs. */
  key: TokenKey;
  /** While it is set, the CA refuses. */
  refusal: ConnectError | undefined;
  /** Resolves when the CA is to answer. */
  answering: Promise<void>;
  /** What the CA writes otherwise than it should. */
  claims: Claims;
  /** Publishes these keys. */
  readonly publish: (...keys: readonly TokenKey[]) => void;
}

export const subject = workload("foo", "bar");

export async function createJwtAuthority(impersonates = false): Promise<JwtAuthority> {
  const log = createEventRecorder();
  const requests: CreateJwtSvidRequest[] = [];
  const bundles = new JwtBundles();
  const transport = createRouterTransport(({ service }) => {
    service(JwtSvidService, {
      createJwtSvid: async (request) => {
        requests.push(request);
        if (authority.refusal) throw authority.refusal;
        await authority.answering;
        const seconds = Math.floor(authority.now.getTime() / 1000);
        const { audiences: aud, spiffeId: sub } = request;
        const claims = { sub: sub || subject, aud, iat: seconds, exp: seconds + 300 };
        return { token: await mintToken(authority.key, { ...claims, ...authority.claims }) };
      },
    });
  });
  const settings = {
    attemptTimeoutMilliseconds: hangMilliseconds,
    headers: {},
    clusterId: "",
    token: { kind: "file", path: "" },
  };
  const channel = {
    transport: async () => transport,
    isInHandshake: () => false,
    reset: () => undefined,
  };
  const ca = new CaClient(settings as RequestSettings, { channel, random: () => 0, log });
  const authority: JwtAuthority = {
    jwtSvids: new JwtSvids({ ca, bundles, impersonates, clock: () => authority.now, log }),
    jwtBundles: bundles,
    log,
    requests,
    now: new Date("2026-11-21T12:00:00Z"),
    key: await createTokenKey("ES256", "key-1"),
    refusal: undefined,
    answering: Promise.resolve(),
    claims: {},
    publish: (...keys) => {
      const published = keys.map(({ publicJwk }) => ({ ...publicJwk, use: "jwt-svid" }));
      bundles.update(clusterLocal, JwtSvidKeys.in(published));
    },
  };
  authority.publish(authority.key);
  return authority;
}
