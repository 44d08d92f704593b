"""Work on the device by name."""

import pytest

from gradscope.trace.kernels import kernels
from tests.trace_builder import events_frame, kernel, launch, memcpy, op, step


def test_kernels_are_summed_by_name():
    rows = [
        op("aten::mm", 0, 30),
        launch(1, 5),
        op("aten::bmm", 40, 30),
        launch(2, 45),
        launch(3, 60),
        kernel("gemm", 100, 30, 1, blocks=2.0, occupancy_pct=50.0),
        kernel("gemm", 200, 10, 2, blocks=6.0, occupancy_pct=10.0),
        kernel("gemm", 300, 20, 3),
        memcpy("Memcpy HtoD", 400, 5, 4096),
        memcpy("Memcpy HtoD", 500, 7, 4),
    ]
    gemm, copy = kernels(events_frame(rows)).iter_rows(named=True)
    assert gemm == {
        "name": "gemm",
        "kind": "kernel",
        "calls": 3,
        "total_ns": 60_000,
        "mean_ns": 20_000.0,
        "min_ns": 10_000,
        "max_ns": 30_000,
        "stamped_ns": 60_000,
        "blocks_per_sm": 3.0,  # (2 * 30 + 6 * 10) / 40: the third call does not tell
        "occupancy_pct": 40.0,
        "bytes": None,
        "communication": False,
        "tensor_cores": False,
        "could_use_tensor_cores": True,
        "launched_by": ["aten::bmm", "aten::mm"],
        "launchers": 2,
    }
    assert (copy["kind"], copy["calls"], copy["total_ns"], copy["bytes"]) == ("memcpy", 2, 12_000, 4100)
    assert (copy["occupancy_pct"], copy["tensor_cores"], copy["launched_by"]) == (None, None, [])
    assert copy["could_use_tensor_cores"] is None


def test_a_kernel_of_no_length_still_has_an_occupancy():
    assert kernels(events_frame([kernel("k", 0, 0, occupancy_pct=25.0)]))["occupancy_pct"].to_list() == [25.0]


def test_only_the_three_largest_launchers_are_named():
    rows = []
    for at in range(5):
        rows += [op(f"op{at}", at * 10, 9), launch(at + 1, at * 10 + 1, 1), kernel("k", 100 + at * 10, at + 1, at + 1)]
    row = kernels(events_frame(rows)).row(0, named=True)
    assert (row["launched_by"], row["launchers"]) == (["op4", "op3", "op2"], 5)


def test_one_step_holds_what_begins_in_it_on_the_device():
    rows = [step(0, 0, 100), step(1, 100, 100), kernel("k", 50, 70), kernel("k", 150, 5)]
    trace = events_frame(rows)
    assert kernels(trace, step=1)["total_ns"].to_list() == [5_000]
    assert kernels(trace, step=3).is_empty()


def test_collectives_are_marked():
    rows = [
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 0, 5),
        kernel("k", 9, 1),
    ]
    assert kernels(events_frame(rows))["communication"].to_list() == [True, False]


def test_a_trace_without_a_device_has_no_kernels():
    assert kernels(events_frame([op("mm", 0, 5)])).is_empty()
    assert kernels(events_frame([])).is_empty()


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn", True),
        ("ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_stages_32x1_tn", True),
        ("volta_h884gemm_64x64_ldg8_tn", True),
        ("turing_fp16_s1688gemm_fp16_128x64_sliced1x2_ldg8_f2f_nn", True),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>(Params)", True),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16", True),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute", True),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", True),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false>>(Flash_fwd_params)", True),
        ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN", True),
        ("ampere_sgemm_128x64_nn", False),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma", False),
        ("cutlass_80_simt_sgemm_128x64_8x5_nn_align1", False),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)", False),
        ("Cijk_Ailk_Bljk_SB_MT128x64x16_SN", False),
    ],
)
def test_tensor_cores_are_guessed_by_name(name, guess):
    assert kernels(events_frame([kernel(name, 0, 1)]))["tensor_cores"].to_list() == [guess]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::mm", True),
        ("aten::cudnn_convolution", True),
        ("aten::convolution_backward", True),
        ("aten::_scaled_dot_product_flash_attention_backward", True),
        ("aten::add", False),
        ("aten::mm_but_not", False),
        ("not aten::mm", False),
    ],
)
def test_operators_that_multiply_matrices_could_use_tensor_cores(name, expected):
    rows = [op(name, 0, 30), launch(1, 5), kernel("k", 50, 5, 1)]
    assert kernels(events_frame(rows))["could_use_tensor_cores"].to_list() == [expected]
