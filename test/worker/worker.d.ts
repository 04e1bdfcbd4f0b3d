declare namespace Cloudflare {
  interface GlobalProps {
    mainModule: typeof import("../../src/worker/main.ts");
  }

  interface Env {
    readonly AUTHORITIES: KVNamespace;
    readonly KEK: string;
    readonly TRUST_DOMAIN: string;
    readonly ISSUERS: readonly { readonly issuer: string }[];
    readonly INCEPTION_DATE: string;
    readonly PROPAGATION_INTERVAL: string;
  }
}
