"""Names of native frames: what is left out, and what is cut."""

import pytest

from traceanalyzer.passes.native_frames import short_native_frame


@pytest.mark.parametrize(
    ("name", "module", "short"),
    [
        ("torch::autograd::Engine::thread_main(std::shared_ptr<torch::GraphTask> const&)", "/x/libtorch_cpu.so",
         "torch::autograd::Engine::thread_main"),
        ("at::native::gpu_kernel_impl<at::native::CUDAFunctor_add<float> >(at::TensorIteratorBase&)", "/x/libtorch.so",
         "at::native::gpu_kernel_impl<...>"),
        ("std::vector<int>::operator[](unsigned long)", "/x/a.out", "std::vector<int>::operator[](unsigned long)"),
        ("c10::impl::wrap<A<1>, B>::call(int)", "/x/a.so", "c10::impl::wrap<...>::call"),
        ("cudaLaunchKernel", "/x/libcudart.so.12", "cudaLaunchKernel"),
        ("(anonymous namespace)::work(int)", "/x/a.out", "(anonymous namespace)::work(int)"),
        ("a<b", "/x/a.out", "a<b"),
        ("0x7fd0dce2a1ca", "/lib/libc.so.6", None),
        ("_start", "/x/a.out", None),
        ("_PyEval_EvalFrameDefault", "/usr/bin/python3.12", None),
        ("PyObject_Call", "/usr/lib/libpython3.11.so.1.0", None),
        ("anything", "/opt/nvidia/target-linux-x64/libToolsInjection64.so", None),
    ],
)  # fmt: skip
def test_frames_are_short_or_left_out(name, module, short):
    assert short_native_frame(name, module) == short


def test_long_names_end_in_an_ellipsis():
    short = short_native_frame("x" * 500, None)
    assert len(short) == 120 and short.endswith("…")
