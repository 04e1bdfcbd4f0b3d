import type { Context, Hono } from "hono";
import { toSpiffeBundle } from "../../pki/authority/spiffe-bundle.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import { JwtSvidKeys } from "../../pki/jose/jwt-svid-keys.ts";
import type { KeySet } from "../../pki/jose/key-set.ts";
import { crlsPem } from "../../program/bundle/crl-document.ts";
import { parseCertificates } from "../../program/files/pem-file.ts";
import { LongPolls } from "../../transport/http/long-poll.ts";
import { PolledEndpoint, type Publisher } from "../../transport/http/polled-endpoint.ts";
import type { PeerOf } from "../../transport/rpc/rpc.ts";
import type { UpstreamTrust } from "../distribute/upstream-trust.ts";
import { Turn } from "../limits/turn.ts";

interface TrustPorts {
  readonly trust: () => UpstreamTrust;
  readonly peerOf: PeerOf;
  readonly clock: () => Date;
  readonly ending: AbortSignal;
}

const longPollLimits = { longestSeconds: 300, readSeconds: 1 };

/**
 * Publishes the bundle and the CRLs of the CA at the paths of the CA. The gateway follows both, so that the CA is asked
 * once, however many agents ask. A waiting caller gets a change within a second.
 */
export function addTrustRoutes(app: Hono, { trust, peerOf, clock, ending }: TrustPorts): void {
  const publisher: Publisher = { clock, longPollLimits, bundleMaximumAgeSeconds: 1 };
  const longPolls = new LongPolls(() => longPollLimits, peerOf, ending);
  const roots = async (): Promise<ReturnType<UpstreamTrust["roots"]>> => {
    if (!trust().roots()) await Turn.aside(() => untilEnding(trust().asked, ending));
    return trust().roots();
  };
  let known: (NumberedBundle & { readonly of: object; readonly jwtKeys: KeySet }) | undefined;
  const wholeBundle = async (): Promise<typeof known> => {
    const of = await roots();
    const jwtKeys = trust().published.jwtKeys();
    if (of && (known?.of !== of || known.jwtKeys !== jwtKeys)) known = { ...of, of, jwtKeys };
    return of && known;
  };
  const pemBundle = PolledEndpoint.create(publisher, longPolls, {
    read: roots,
    write: ({ pem }) => PolledEndpoint.representationOf(pem, "application/x-pem-file"),
  });
  const spiffeBundle = PolledEndpoint.create(publisher, longPolls, {
    read: wholeBundle,
    write: async ({ pem, sequence, jwtKeys }) => {
      const ders = parseCertificates(pem).map(({ raw }) => Uint8Array.from(raw));
      const bundle = await toSpiffeBundle(ders, sequence, trust().published.refreshSeconds());
      const keys = [
        ...bundle.keys,
        ...jwtKeys.map((key) => ({ ...JwtSvidKeys.toJwk(key), use: "jwt-svid" })),
      ];
      return PolledEndpoint.representationOf(
        `${JSON.stringify({ ...bundle, keys })}\n`,
        "application/json",
      );
    },
  });
  const lists = PolledEndpoint.create(publisher, longPolls, {
    read: async () => trust().document(),
    write: (crls) => PolledEndpoint.representationOf(crlsPem(crls), "application/x-pem-file"),
  });
  app.get("/bundle.pem", pemBundle);
  app.get("/bundle.json", spiffeBundle);
  app.get("/crl.pem", async (c: Context) => {
    if (!trust().document()) await Turn.aside(() => untilEnding(trust().asked, ending));
    return trust().document()?.length === 0 ? c.notFound() : lists(c);
  });
}

/** Waits until work or the program ends. Rejects if the work rejects first. It leaves no listener behind. */
export async function untilEnding(work: Promise<unknown>, ending: AbortSignal): Promise<void> {
  const ended = Promise.withResolvers<void>();
  const end = (): void => ended.resolve();
  ending.addEventListener("abort", end);
  if (ending.aborted) end();
  try {
    await Promise.race([work, ended.promise]);
  } finally {
    ending.removeEventListener("abort", end);
  }
}
