/** The path of each way to get what the CA issues. */
export const IssuingPath = {
  /** The path of Istio's RPC CreateCertificate. */
  createCertificate: "/istio.v1.auth.IstioCertificateService/CreateCertificate" as const,

  /** The path of the RPC CreateJwtSvid. */
  createJwtSvid: "/rampart.jwt.v1.JwtSvidService/CreateJwtSvid" as const,

  /** The path at which tokens are exchanged (RFC 8693). */
  tokenExchange: "/token" as const,
};

/** The paths at which callers get what the CA issues. */
export const issuingPaths: readonly (typeof IssuingPath)[keyof typeof IssuingPath][] =
  Object.values(IssuingPath);

/**
 * The path of a request as it is written, without its query. Every path has one spelling, because
 * a rule of an edge or a proxy for a path would not match another spelling, such as `/%62undle.pem`.
 */
export function pathOf({ url }: Pick<Request, "url">): string {
  const [path = ""] = url.slice(url.indexOf("/", url.indexOf("//") + 2)).split(/[?#]/, 1);
  return path;
}
