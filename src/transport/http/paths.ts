/** The path of Istio's RPC CreateCertificate. */
export const createCertificatePath = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

/** The path of the RPC CreateJwtSvid. */
export const createJwtSvidPath = "/rampart.jwt.v1.JwtSvidService/CreateJwtSvid";

/** The path at which tokens are exchanged (RFC 8693). */
export const tokenExchangePath = "/token";

/** The paths at which callers get what the CA issues. */
export const issuingPaths = [createCertificatePath, createJwtSvidPath, tokenExchangePath] as const;

/**
 * The path of a request as it is written. Every path has one spelling: a rule of an edge or a proxy for a path
 * would not see another one, such as `/%62undle.pem`.
 */
export function pathOf({ url }: Pick<Request, "url">): string {
  const [path = ""] = url.slice(url.indexOf("/", url.indexOf("//") + 2)).split(/[?#]/, 1);
  return path;
}
