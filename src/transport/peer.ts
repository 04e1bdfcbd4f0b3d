import { type ContextKey, createContextKey } from "@connectrpc/connect";
import type { Bytes } from "../pki/encoding/bytes.ts";

/** The peer of a call, as the platform knows it and not as the peer says. */
export interface Peer {
  /** A leaf, DER. The platform has verified its chain, and that the peer holds its key. */
  readonly clientCertificate?: Bytes | undefined;
  /** The IP address from which the call came. */
  readonly address?: string | undefined;
  /** Called when the answer waits for a change. A platform that bounds the work under way goes on with other work. */
  readonly passTurn?: (() => void) | undefined;
}

/** The key under which a platform hands the peer of a call to the RPC. */
export const peerKey: ContextKey<Peer> = createContextKey<Peer>({});

/** The header in which a gateway forwards the address of its client. */
export const forwardedPeerHeader = "x-rampart-peer";
