// The table of one instruction set. Included last, inside its namespace (see simd_portable.h).
extern const Kernels table;
const Kernels table = {
    OUTRIDER_ISA_NAME, quant_linear<false>, quant_linear<true>, float_linear<false>, float_linear<true>,
    quantise,          rms_norm,            silu_mul,           rope,                attend,
    merge,             finish,              round_to_f16,       dequant_row,         argmax,
    draw,              draw_ids,            scale_row,          exp_sum,             distance_sum,
    nearness,          drop_light,          divide,             gather,              log_of,
};
