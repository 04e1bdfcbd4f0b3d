import { type ContextKey, createContextKey } from "@connectrpc/connect";
import type { Bytes } from "../pki/encoding/bytes.ts";

/**
 * The key under which a platform hands the caller's client certificate to the RPC: a leaf in DER. The
 * platform has verified its chain, and that the caller holds its key.
 */
export const clientCertificateKey: ContextKey<Bytes | undefined> = createContextKey<
  Bytes | undefined
>(undefined);
