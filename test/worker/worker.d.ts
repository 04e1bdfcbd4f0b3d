declare namespace Cloudflare {
  interface GlobalProps {
    mainModule: typeof import("./runtime/patient-worker.ts");
  }

  interface Env {
    readonly AUTHORITIES: KVNamespace;
    readonly LOG_SHARD: DurableObjectNamespace<
      import("./runtime/tested-log-shard.ts").TestedLogShard
    >;
    readonly LOG_BUCKET: R2Bucket;
    readonly CALLER_QUOTA: RateLimit;
    readonly ISSUER_QUOTA: RateLimit;
    readonly CALL_COUNTS: AnalyticsEngineDataset;
    readonly KEK: string;
    readonly TRUST_DOMAIN: string;
    readonly ISSUERS: readonly { readonly issuer: string }[];
    readonly INCEPTION_DATE: string;
    readonly PROPAGATION_INTERVAL: string;
  }
}
