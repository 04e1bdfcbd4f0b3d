import { describe, expect, test } from "vitest";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { EnvironmentProxies } from "../../../src/program/http/proxies.ts";
import noProxy from "../../vectors/no-proxy.json" with { type: "json" };

const proxied = (environment: Record<string, string>, url: string): string | undefined => {
  const { protocol, hostname, port } = new URL(url);
  const isTls = protocol === "https:";
  const host = hostname.replace(/^\[|\]$/g, "");
  const peer = { isTls, host, port: Number(port) || (isTls ? 443 : 80) };
  return EnvironmentProxies.read(environment).proxyFor(peer)?.shown;
};

const both = { HTTPS_PROXY: "http://tls.test:3128", HTTP_PROXY: "http://plain.test:8080" };
const [tls, plain, direct] = ["http://tls.test:3128", "http://plain.test:8080", undefined];

test.each<[Record<string, string>, string, string | undefined]>([
  [both, "https://ca.example", tls],
  [both, "http://ca.example", plain],
  [{ https_proxy: "http://lower.test:1" }, "https://ca.example", "http://lower.test:1"],
  [{ ...both, https_proxy: "http://lower.test:1" }, "https://ca.example", tls],
  [{ HTTPS_PROXY: "", https_proxy: "http://lower.test" }, "https://a.example", "http://lower.test"],
  [{ HTTPS_PROXY: "bare.test:3128" }, "https://ca.example", "http://bare.test:3128"],
  [{ HTTPS_PROXY: "https://tls.test" }, "https://ca.example", "https://tls.test"],
  [{ HTTPS_PROXY: "http://u:p@tls.test:3128" }, "https://ca.example", tls],
  [{ HTTP_PROXY: "http://plain.test" }, "https://ca.example", direct],
  [{}, "https://ca.example", direct],
])("%j has for %s the proxy %s", (environment, url, proxy) => {
  expect(proxied(environment, url)).toBe(proxy);
});

/** As in the tests of golang.org/x/net/http/httpproxy. */
test.each(noProxy as unknown as [string, string, boolean][])(
  "with NO_PROXY %j, that %s goes through the proxy is %s",
  (NO_PROXY, url, isProxied) => {
    expect(proxied({ ...both, NO_PROXY }, url) !== undefined).toBe(isProxied);
    expect(proxied({ ...both, no_proxy: NO_PROXY }, url) !== undefined).toBe(isProxied);
  },
);

describe("the URL of a proxy", () => {
  test.each(["socks5://a.test:1080", "ftp://a.test", "http://", "http://u:hidden@", "http://a b"])(
    "is refused: %s",
    (HTTPS_PROXY) => {
      expect(() => EnvironmentProxies.read({ HTTPS_PROXY })).toThrow(OperatorError);
      expect(() => EnvironmentProxies.read({ HTTPS_PROXY })).toThrow(/^HTTPS_PROXY: must be http/);
      expect(() => EnvironmentProxies.read({ HTTPS_PROXY })).not.toThrow(/hidden/);
    },
  );

  test("gives a password that is no percent-encoding as it stands", () => {
    const { proxyFor } = EnvironmentProxies.read({ HTTPS_PROXY: "http://u:100%@a.test" });
    const { authorization = "" } = proxyFor({ isTls: true, host: "ca.example", port: 443 }) ?? {};
    expect(Buffer.from(authorization.slice(6), "base64").toString()).toBe("u:100%");
  });

  test("is told of without its password", () => {
    const { sentences } = EnvironmentProxies.read({
      https_proxy: "http://u:hidden@a.test:1",
      NO_PROXY: ".svc",
    });
    expect(sentences).toEqual([
      "TLS goes through http://a.test:1 (HTTPS_PROXY), except to the servers of NO_PROXY",
    ]);
  });
});
