import { holdToLimbo, holdToWycheproof } from "../contract/public-vectors.ts";
import { cryptoProviders } from "../testkit/crypto-providers.ts";
import wycheproof from "../vectors/wycheproof.json" with { type: "json" };
import mlDsa from "../vectors/wycheproof-ml-dsa.json" with { type: "json" };

const providers = cryptoProviders.map(([, provider]) => provider);

holdToWycheproof(wycheproof, providers);
holdToWycheproof(mlDsa, providers);
holdToLimbo();
