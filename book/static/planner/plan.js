// One layout of a training run: does it fit, how fast is it, what does it cost?
// The twin of `plan.train(model, cluster, layout=...)` in Python, for one layout:
//
//   train(data, {
//     model: "Llama 3 8B", accelerator: "H100 SXM", accelerators: 64,
//     layout: { tp: 2, zero: 1, micro_batch: 1, recompute: "selective" },
//     global_batch: 1024, sequence: 8192, tokens: 1e12,       // each may be left out
//   })                                                        // -> as TrainingPlan
//
// `data` is data.json beside this file: models, accelerators, fitted efficiencies and
// assumptions, all written by Python. Nothing here touches a page. Functions and their
// order follow aiinfra.plan, aiinfra.memory and aiinfra.pipeline, where formulas are
// derived and sources named; a test holds the two against each other.
//
// Units: s, bytes, FLOP, tokens. Keys with an underscore are Python's names.

/** Why a layout is refused: one sentence, and the name of the field at fault. */
export class Refused extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

// Checks ----------------------------------------------------------------------------

const isWhole = (value) => typeof value === "bigint" || Number.isInteger(value);
const shown = (value) => (typeof value === "string" ? `'${value}'` : String(value));
const commas = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");

function whole(name, value, high, low = 1) {
  if (!isWhole(value) || value < low)
    throw new Refused(
      name,
      `${name} must be a whole number, ${low} or more, got ${shown(value)}`,
    );
  if (value > high)
    throw new Refused(
      name,
      `${name} must be at most ${commas(high)}, got ${shown(value)}`,
    );
  return Number(value);
}

function number(name, value, aboveZero, high) {
  const least = aboveZero ? "greater than 0" : "0 or more";
  const good = typeof value === "number" && Number.isFinite(value);
  if (!good || value < 0 || (aboveZero && value === 0))
    throw new Refused(
      name,
      `${name} must be a finite number ${least}, got ${shown(value)}`,
    );
  if (value > high)
    throw new Refused(name, `${name} must be at most ${high}, got ${value}`);
  return value;
}

function oneOf(name, value, allowed) {
  if (!allowed.includes(value))
    throw new Refused(
      name,
      `${name} must be one of ${allowed.join(", ")}; got ${shown(value)}`,
    );
  return value;
}

function known(name, value, table) {
  if (!Object.hasOwn(table, value))
    throw new Refused(
      name,
      `${name} must be one of the ${Object.keys(table).length} in the list; ` +
        `got ${shown(value)}`,
    );
  return table[value];
}

/** The layout with all its fields, each by itself in its range. */
function checkedLayout(given, count, data) {
  const most = data.limits.degree;
  const x = { ...data.layout, ...given };
  oneOf("recompute", x.recompute, data.recompute);
  let inner = 1;
  for (const name of ["tp", "pp", "cp"])
    inner *= whole(name, x[name], data.limits.count);
  if (x.dp === undefined && count % inner)
    throw new Refused(
      "accelerators",
      `tp x pp x cp = ${inner} must divide the cluster's ${count} accelerators; ` +
        "the rest is dp",
    );
  x.dp ??= count / inner;
  for (const name of ["dp", "tp", "pp", "cp", "ep", "micro_batch", "virtual_stages"])
    x[name] = whole(name, x[name], most);
  x.zero = whole("zero", x.zero, 3, 0);
  oneOf("schedule", x.schedule, data.schedules);
  if (typeof x.sequence_parallel !== "boolean")
    throw new Refused(
      "sequence_parallel",
      `sequence_parallel must be True or False, got ${shown(x.sequence_parallel)}`,
    );
  return x;
}

/** Refuse a layout that the model, the batch or the sequence does not divide into. */
function checkFit(x, model, batch, sequence, count, data) {
  const demand = (good, name, allowed) => {
    if (!good) {
      const value = name === "global_batch" ? batch : x[name];
      throw new Refused(name, `${name} must be ${allowed}; got ${value}`);
    }
  };
  const { tp, pp, cp, ep, dp, micro_batch, virtual_stages } = x;
  const rounds = Math.floor(batch / (dp * micro_batch));
  const interleaved = x.schedule === "interleaved";
  const dual = x.schedule === "dualpipe";
  const values = `dp=${dp}, micro_batch=${micro_batch}`;
  demand(
    batch % (dp * micro_batch) === 0,
    "global_batch",
    `a multiple of dp * micro_batch (${values})`,
  );
  demand(model.heads % tp === 0, "tp", `a divisor of the ${model.heads} heads`);
  if (model.attention !== "mla")
    demand(
      model.kv_heads % tp === 0 || tp % model.kv_heads === 0,
      "tp",
      `a divisor or a multiple of the ${model.kv_heads} key-value heads`,
    );
  for (const width of [model.d_ffn, model.d_ffn_expert])
    if (width)
      demand(width % tp === 0, "tp", `a divisor of the MLP's width, ${width}`);
  demand(
    sequence % (cp * (x.sequence_parallel ? tp : 1)) === 0,
    "cp",
    `a divisor of the sequence, ${sequence} (times tp with sequence_parallel)`,
  );
  demand(
    pp * virtual_stages <= model.layers,
    "pp",
    `at most the ${model.layers} layers, over virtual_stages`,
  );
  demand(
    interleaved ? virtual_stages >= 2 : virtual_stages === 1,
    "virtual_stages",
    "at least 2 in an interleaved schedule and 1 in any other",
  );
  demand(
    !interleaved || rounds % pp === 0,
    "global_batch",
    `a multiple of dp * micro_batch * pp with schedule interleaved (${values}, ` +
      `pp=${pp})`,
  );
  demand(!dual || pp % 2 === 0, "pp", "even with schedule dualpipe");
  demand(
    !dual || (rounds % 2 === 0 && rounds >= 2 * pp),
    "global_batch",
    "an even number of micro-batches per rank, 2 * pp or more, with schedule dualpipe",
  );
  if (model.experts) {
    demand(
      model.experts % ep === 0,
      "ep",
      `a divisor of the ${model.experts} experts`,
    );
    demand((dp * cp) % ep === 0, "ep", "a divisor of dp * cp");
  } else demand(ep === 1, "ep", "1 in a model without experts");
  if (tp * pp * cp * dp !== count)
    throw new Refused(
      "accelerators",
      `tp x pp x cp x dp = ${tp * pp * cp * dp}, but the cluster has ${count} ` +
        "accelerators",
    );
  if (rounds > data.limits.degree)
    throw new Refused(
      "global_batch",
      `micro_batches must be at most ${commas(data.limits.degree)}, got ${rounds}`,
    );
}

// What may be left out --------------------------------------------------------------

export const defaultSequence = (model, data) =>
  Math.min(data.defaults.sequence, model.context || data.defaults.sequence);

export const defaultTokens = (model, data) =>
  model.training_tokens ?? data.defaults.tokens_per_parameter * model.parameters;

/** Sequences: about 16 million tokens, in a number that dp * micro_batch divides. */
export function defaultBatch(count, sequence, x, data) {
  const wanted = Math.max(1, Math.floor(data.defaults.batch_tokens / sequence));
  const inner = x.tp * x.pp * x.cp;
  const unit = (x.dp ?? Math.max(1, Math.floor(count / inner))) * x.micro_batch;
  return unit * Math.max(1, roundHalfEven(wanted / unit));
}

function roundHalfEven(value) {
  const low = Math.floor(value);
  if (value - low !== 0.5) return Math.round(value);
  return low % 2 ? low + 1 : low;
}

// FLOP ------------------------------------------------------------------------------

/** Forward FLOP of scores and weighted sums in all layers, for one token: causal. */
function attentionFlops(model, S) {
  const met = (window) => {
    const w = Math.min(S, window);
    return w - (w * (w - 1)) / (2 * S);
  };
  let layers = (model.layers - model.windowed_layers) * met(S);
  if (model.windowed_layers) layers += model.windowed_layers * met(model.window);
  return model.flop_per_pair * layers;
}

/** FLOP of one token, forward and backward, and of what is computed again. */
function flopsPerToken(model, S, recompute) {
  const attention = attentionFlops(model, S);
  const forward = 2 * model.layer_matrices + attention;
  const output = 2 * model.vocabulary * model.d_model;
  const again = { none: 0, selective: attention, full: forward }[recompute];
  return 3 * (forward + output) + again;
}

// Time of a step: aiinfra.plan.step -------------------------------------------------

/** Seconds of one step by cause. */
export function times(model, cluster, x, { batch, sequence, precision, data }) {
  const e = data.efficiency;
  const { bytes, norm_passes, optimizer_bytes } = data.assumed;
  const peak = cluster.flops[precision];
  const half = cluster.flops.bf16;
  const memory = cluster.memory_bytes_per_s * e.memory;
  const near = cluster.scale_up_bytes_per_s * e.network;
  const far = cluster.scale_out_bytes_per_s * e.network;
  const domain = cluster.domain;
  const { tp, pp, cp, ep, dp, zero } = x;
  const d = model.d_model;
  const depth = model.layers;
  const tokens = (x.micro_batch * sequence) / cp; // of a micro-batch, on a rank
  const rounds = batch / (dp * x.micro_batch); // micro-batches of a rank

  // One layer of one micro-batch, forward.
  const products =
    (2 * tokens * model.layer_matrices) / depth / tp / (peak * e.gemm);
  const attention =
    (tokens * attentionFlops(model, sequence)) / depth / tp / (half * e.attention);
  const whole = (norm_passes * d) / (x.sequence_parallel ? tp : 1);
  const rest = (tokens * bytes * (whole + model.activation_width / tp)) / memory;

  const hidden = tokens * d * bytes; // one activation of the residual stream
  const tensor = ((4 * (tp - 1)) / tp) * (hidden / (tp > domain ? far : near));
  const blocks = ((cp - 1) * tokens * model.kv_elements_per_layer * bytes) / tp;
  const context = Math.max(
    blocks / (tp * cp <= domain ? near : far) - attention,
    0,
  );
  let expert = 0;
  if (model.experts) {
    const sent =
      (((tokens / tp) * model.experts_per_token * d * bytes) * (ep - 1)) / ep;
    expert = (2 * sent) / (ep * tp <= domain ? near : far);
  }

  // Backward, and what is computed again; then all layers of the fullest rank.
  const full = x.recompute === "full";
  const again = {
    none: 0,
    selective: attention,
    full: products + attention + rest,
  }[x.recompute];
  const held = Math.ceil(depth / (pp * x.virtual_stages)) * x.virtual_stages;
  const all = held * rounds;
  const part = {
    products_s: 3 * products * all,
    attention_s: 3.5 * attention * all,
    memory_bound_s: 3 * rest * all,
    recompute_s: again * all,
    tensor_s: tensor * (full ? 3 : 2) * all,
    context_s: context * (full ? 4 : 3) * all,
    expert_s: expert * (full ? 3 : 2) * (1 - e.overlap) * all,
    pipeline_s: 0,
  };
  if (pp > 1)
    part.pipeline_s =
      rounds * 2 * x.virtual_stages *
      (hidden / tp / far + cluster.scale_out_latency_s);
  const headFlop = (6 * tokens * d * model.vocabulary) / tp;
  const logits = (12 * tokens * model.vocabulary) / tp;
  const head = headFlop / (half * e.gemm) + logits / memory;
  part.vocabulary_s = (head * rounds) / pp;
  const busy = sum(part);

  part.bubble_s = 0;
  if (pp > 1) {
    const third = busy / rounds / 3 / x.virtual_stages;
    part.bubble_s = bubble(x.schedule, pp, rounds, third);
  }

  const weights = heldParameters(model, x);
  const shards = dp * cp;
  part.data_s = 0;
  if (shards > 1) {
    const volume = (weights * bytes * (shards - 1)) / shards;
    const rate = tp * pp * shards <= domain ? near : far;
    const once = ((2 * volume) / rate) * (1 - e.overlap);
    const each = ((zero === 3 ? 3 * rounds : rounds + 1) * volume) / rate;
    const often = Math.max(each * (1 - e.overlap), each - busy * e.overlap);
    part.data_s = zero >= 2 ? often : once;
  }
  const states = weights / (zero >= 1 ? dp : 1);
  part.optimizer_s = (states * optimizer_bytes) / memory;
  return part;
}

const sum = (parts) => Object.values(parts).reduce((a, b) => a + b, 0);

/** Seconds a rank of p stands idle; a forward, and each half of a backward, `third`. */
function bubble(schedule, p, m, third) {
  const fill = (p - 1) * 2 * third;
  if (schedule === "zb-h1" || schedule === "zb-h2") {
    const waiting = Math.min(schedule === "zb-h1" ? p : 2 * p - 1, m);
    return Math.max(fill - (waiting - 1) * third, 0);
  }
  if (schedule === "dualpipe") return (p / 2 - 1) * 2 * third;
  return fill + (p - 1) * third;
}

/** Parameters of the fullest rank, before ZeRO: its layers, and one vocabulary. */
function heldParameters(model, x) {
  const vocabulary = model.vocabulary * model.d_model;
  const tables = model.tied ? vocabulary : 2 * vocabulary;
  let body = (model.parameters - tables) / x.pp;
  if (model.experts) {
    const experts = model.expert_parameters / x.pp;
    body = body - experts + experts / x.ep;
  }
  return (body + (x.pp > 1 ? vocabulary : tables)) / x.tp;
}

// Memory: aiinfra.memory ------------------------------------------------------------

/** Bytes on the fullest accelerator by kind; `total` is their sum. */
export function memory(model, x, { batch, sequence, data }) {
  const shares = sharedByRanks(model, x, batch, sequence);
  let fullest = null;
  for (let rank = 0; rank < x.pp; rank++) {
    const held = onRank(rank, model, x, shares, data.assumed.precision);
    held.total = sum(held);
    if (!fullest || held.total > fullest.total) fullest = held;
  }
  return fullest;
}

/** Parameters and activations of single layers and tables, as a rank has them. */
function sharedByRanks(model, x, batch, sequence) {
  const { tp } = x;
  const kvWays = Math.min(tp, Math.max(model.kv_heads, 1));
  const everywhere = ["q_down", "kv_down", "norms", "output_bias"];
  let layer = model.norms_per_layer * model.norm_parameters;
  const attention = { ...model.attention_matrices, ...model.attention_vectors };
  for (const [name, count] of Object.entries(attention)) {
    const narrow = (name === "kv" || name === "kv_bias") && model.attention !== "mla";
    layer += count / (everywhere.includes(name) ? 1 : narrow ? kvWays : tp);
  }
  const mlp = ({ parameters, whole }) => (parameters - whole) / tp + whole;
  const expert = model.experts ? mlp(model.expert_mlp) : 0;
  const table = Math.ceil(model.vocabulary / tp) * model.d_model;
  const tokens = (x.micro_batch * sequence) / x.cp;
  const none = { stored: 0, again: 0 };
  const kept = (tensors) =>
    tensors ? keptPerToken(tensors, x, kvWays, tokens) : none;
  return {
    tokens,
    rounds: batch / (x.dp * x.micro_batch),
    denseLayer: layer + (model.d_ffn ? mlp(model.dense_mlp) : 0),
    moeLayer: layer + model.router_parameters + model.shared_experts * expert,
    expertsLayer: (model.experts / x.ep) * expert,
    table,
    first:
      table +
      model.positions_learned * model.d_model +
      (model.embedding_norm ? model.norm_parameters : 0),
    dense: kept(model.saved.dense),
    moe: kept(model.saved.moe),
  };
}

/** Bytes that a layer keeps for its backward, and those made again for it. */
function keptPerToken(tensors, x, kvWays, tokens) {
  const ways = {
    tensor: x.tp,
    kv: kvWays,
    sequence: x.sequence_parallel ? x.tp : 1,
  };
  let total = 0;
  let core = 0;
  for (const { bytes_per_token, cut, core: dropped } of tensors) {
    const bytes = bytes_per_token / ways[cut];
    total += bytes;
    if (dropped) core += bytes;
  }
  const input = tensors[0].bytes_per_token / ways[tensors[0].cut];
  const stored = { none: total, selective: total - core, full: input }[x.recompute];
  return { stored: stored * tokens, again: (total - stored) * tokens };
}

/** Dense layers and layers with experts of one stage: the ends have fewer. */
function layersOfStage(model, stage, stages) {
  const most = Math.ceil(model.layers / stages);
  const short = most * stages - model.layers;
  const head = Math.floor(short / 2);
  const tail = stages - Math.floor((short + 1) / 2);
  const start =
    stage * most - Math.min(stage, head) - Math.max(stage - tail, 0);
  const count = most - (stage < head ? 1 : 0) - (stage >= tail ? 1 : 0);
  const leading = model.experts ? model.dense_layers : model.layers;
  const dense = Math.min(Math.max(leading - start, 0), count);
  return [dense, count - dense];
}

/** Bytes by kind of one rank of the pipeline. */
function onRank(rank, model, x, s, precision) {
  const { pp, zero, virtual_stages } = x;
  const dual = x.schedule === "dualpipe";
  let dense = 0;
  let moe = 0;
  const add = (stage) => {
    const [plain, experts] = layersOfStage(model, stage, pp * virtual_stages);
    dense += plain;
    moe += experts;
  };
  for (let chunk = 0; chunk < virtual_stages; chunk++) add(chunk * pp + rank);
  if (dual) add(pp - 1 - rank); // the mirrored stage, fed from the other end
  const atEnd = rank === pp - 1;
  const first = rank === 0 || (dual && atEnd);
  const last = atEnd || (dual && rank === 0);

  let plain = dense * s.denseLayer + moe * s.moeLayer;
  if (first) plain += s.first;
  if (last) plain += model.norm_parameters;
  if (last && !(model.tied && first)) plain += s.table;
  const shared = states(Math.ceil(plain), x.dp * x.cp, zero, precision);
  const experts = Math.ceil(moe * s.expertsLayer);
  const spread = states(experts, (x.dp * x.cp) / x.ep, zero, precision);

  const a = precision.activation_bytes;
  const copies = virtual_stages * (dual ? 2 : 1);
  const held = inFlight(x, rank, s.rounds);
  let activations =
    ((dense * s.dense.stored + moe * s.moe.stored) / copies) * held;
  const logits = s.tokens * Math.ceil(model.vocabulary / x.tp);
  if (last) {
    const hidden = (s.tokens * model.d_model) / (x.sequence_parallel ? x.tp : 1);
    const atLoss = virtual_stages > 1 || dual ? 1 : held;
    activations += (2 * a * hidden + 4 * logits) * atLoss;
  }

  const again = Math.max(dense ? s.dense.again : 0, moe ? s.moe.again : 0);
  const largest = Math.max(
    dense ? s.denseLayer : 0,
    moe ? s.moeLayer + s.expertsLayer : 0,
    first || last ? s.table : 0,
  );
  const gathered = zero < 2 ? 0 : zero - 1;
  return {
    weights: shared.weights + spread.weights,
    gradients: shared.gradients + spread.gradients,
    optimizer: shared.optimizer + spread.optimizer,
    activations,
    buffers:
      again + gathered * largest * precision.weight_bytes + (last ? a * logits : 0),
  };
}

/** Bytes of the model's states: ZeRO cuts one kind after another. */
function states(parameters, ranks, zero, precision) {
  const part = Math.ceil(parameters / ranks);
  return {
    weights: (zero < 3 ? parameters : part) * precision.weight_bytes,
    gradients: (zero < 2 ? parameters : part) * precision.gradient_bytes,
    optimizer: (zero < 1 ? parameters : part) * precision.optimizer_bytes,
  };
}

/** The most micro-batches (interleaved: chunks of them) that a rank holds at once. */
function inFlight({ schedule, pp: p, virtual_stages: v }, rank, m) {
  const warmUp = Math.min(2 * (p - 1 - rank) + (v - 1) * p, m * v);
  return {
    gpipe: m,
    "1f1b": Math.min(p - rank, m),
    interleaved: Math.min(warmUp + 1, m * v),
    "zb-h1": Math.min(p, m),
    "zb-h2": Math.min(2 * p - 1, m),
    dualpipe: p + 1,
  }[schedule];
}

// Failures: aiinfra.reliability -----------------------------------------------------

/** The share of time that counts, checkpoints at the best interval. */
export function expectedGoodput(cluster, count, assumed) {
  const together = Math.min(assumed.node, cluster.domain);
  const nodes = Math.ceil(count / together);
  const mtbf = (1000 * assumed.day_s) / assumed.failures_per_1000_node_days / nodes;
  const interval = mtbf * bestInterval(assumed.checkpoint_s / mtbf);
  const saved =
    Math.exp(-assumed.restart_s / mtbf) /
    Math.expm1((interval + assumed.checkpoint_s) / mtbf);
  return (interval * saved) / mtbf;
}

/** y that solves -log(1 - y) - y = d, by Newton's steps from above. */
function bestInterval(d) {
  let y = Math.min(Math.sqrt(2 * d), -Math.expm1(-1 - d));
  for (let step = 0; step < 60; step++) {
    const series = y ** 2 * (1 / 2 + y * (1 / 3 + y * (1 / 4 + y * (1 / 5 + y / 6))));
    const excess = (y < 1e-2 ? series : -Math.log1p(-y) - y) - d;
    y = Math.max(y - (excess * (1 - y)) / y, 1e-300);
  }
  return y;
}

// The plan --------------------------------------------------------------------------

/** What follows from one layout; throws Refused where Python raises. */
export function train(data, given) {
  const model = known("model", given.model, data.models);
  const machine = known("accelerator", given.accelerator, data.accelerators);
  const { limits, assumed } = data;
  const count = whole("accelerators", given.accelerators, limits.accelerators);
  const cluster = { ...machine, domain: Math.min(machine.domain, count) };
  let price = cluster.price_per_hour;
  if (given.price_per_hour !== undefined)
    price = number("price_per_hour", given.price_per_hour, false, limits.number);
  const sequence = whole(
    "sequence",
    given.sequence ?? defaultSequence(model, data),
    limits.sequence,
  );
  let batch = given.global_batch;
  if (batch !== undefined) batch = whole("global_batch", batch, limits.global_batch);
  const tokens = number(
    "tokens",
    given.tokens ?? defaultTokens(model, data),
    true,
    limits.number,
  );
  const x = checkedLayout(given.layout ?? {}, count, data);
  batch ??= defaultBatch(count, sequence, x, data);
  checkFit(x, model, batch, sequence, count, data);
  const precision = oneOf("precision", given.precision ?? "bf16", data.precisions);
  if (!(precision in cluster.flops))
    throw new Refused(
      "precision",
      `precision '${precision}': the registry has no such rate for ` +
        `${given.accelerator}; it has ${Object.keys(cluster.flops).join(", ")}`,
    );

  const breakdown = times(model, cluster, x, { batch, sequence, precision, data });
  const held = memory(model, x, { batch, sequence, data });
  const step = sum(breakdown);
  const perSecond = (batch * sequence) / step;
  const peak = cluster.flops[precision] * count;
  const training = tokens / perSecond;
  const goodput = expectedGoodput(cluster, count, assumed);
  const wall = goodput ? training / goodput : Infinity;
  const room = cluster.memory_bytes * (1 - assumed.margin);
  return {
    model: given.model,
    cluster: `${commas(count)} × ${given.accelerator}`,
    layout: x,
    global_batch: batch,
    sequence,
    tokens,
    precision,
    fits: held.total <= room,
    memory_bytes: held.total,
    memory_available_bytes: cluster.memory_bytes,
    memory_room_bytes: room,
    memory: held,
    step_time_s: step,
    breakdown,
    mfu: (flopsPerToken(model, sequence, "none") * perSecond) / peak,
    hfu: (flopsPerToken(model, sequence, x.recompute) * perSecond) / peak,
    tokens_per_s: perSecond,
    days: training / assumed.day_s,
    goodput,
    days_with_failures: wall / assumed.day_s,
    energy_j: cluster.power_w ? cluster.power_w * count * wall * assumed.pue : null,
    cost_usd: price === null ? null : (price * count * wall) / 3600,
    price_per_hour: price,
    power_w: cluster.power_w,
  };
}
