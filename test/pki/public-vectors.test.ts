import { holdToLimbo, holdToWycheproof } from "../contract/public-vectors.ts";
import { cryptoProviders } from "../testkit/crypto-providers.ts";

holdToWycheproof(cryptoProviders.map(([, provider]) => provider));
holdToLimbo();
