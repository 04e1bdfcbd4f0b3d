import type { CaAddress } from "../issuance/ca-address.ts";

/** The URL of the published bundle; `undefined` for none. istiod, which speaks native gRPC, has none. */
export function bundleUrlOf(
  url: string | undefined,
  { protocol, baseUrl }: CaAddress,
): string | undefined {
  if (url === "off") return undefined;
  return url ?? (protocol === "grpc" ? undefined : `${baseUrl}/bundle.json`);
}

/** The URL of the CA's revocation lists; `undefined` for none. They are published beside the bundle. */
export function revocationUrlOf(
  url: string | undefined,
  bundleUrl: string | undefined,
): string | undefined {
  if (url === "off") return undefined;
  if (url !== undefined) return url;
  return URL.parse("crl.pem", bundleUrl)?.href;
}
