// Weight-stationary array. Weights enter at the top, one row a cycle, bottom row's first; inputs enter at the left; partial sums
// leave at the foot, one per column and input word. Skewing is done here.
module array_ws #(
    parameter int ROWS = 4,
    parameter int COLS = 4,
    parameter int A_W = 8,
    parameter int B_W = 8,
    parameter int ACC_W = 32,
    parameter int DEST_W = $clog2(ROWS + 1)
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic                  fresh,
    input  logic [    DEST_W-1:0] dest,
    input  logic [  COLS*B_W-1:0] weights,
    input  logic                  valid,
    input  logic                  first,
    input  logic [  ROWS*A_W-1:0] x,
    output logic [      COLS-1:0] out_valid,
    output logic [COLS*ACC_W-1:0] out_data
);
    logic v[ROWS][COLS+1], f[ROWS][COLS+1];
    logic signed [A_W-1:0] a[ROWS][COLS+1];
    logic fresh_in[ROWS+1][COLS];
    logic [DEST_W-1:0] dest_in[ROWS+1][COLS];
    logic signed [B_W-1:0] w[ROWS+1][COLS];
    logic signed [ACC_W-1:0] sum[ROWS+1][COLS];

    for (genvar r = 0; r < ROWS; r++) begin : g_left_edge
        delay_line #(.WIDTH(A_W + 2), .DEPTH(r)) skew (
            .clk, .rst, .d({valid, first, x[r*A_W+:A_W]}), .q({v[r][0], f[r][0], a[r][0]})
        );
    end
    for (genvar c = 0; c < COLS; c++) begin : g_top_edge
        delay_line #(.WIDTH(B_W + DEST_W + 1), .DEPTH(c)) skew (
            .clk, .rst, .d({fresh, dest, weights[c*B_W+:B_W]}), .q({fresh_in[0][c], dest_in[0][c], w[0][c]})
        );
        assign sum[0][c] = '0;
    end

    for (genvar r = 0; r < ROWS; r++) begin : g_row
        for (genvar c = 0; c < COLS; c++) begin : g_col
            pe_ws #(.ROW(r), .DEST_W(DEST_W), .A_W(A_W), .B_W(B_W), .ACC_W(ACC_W)) pe (
                .clk, .rst,
                .fresh_i(fresh_in[r][c]), .dest_i(dest_in[r][c]), .weight_i(w[r][c]),
                .fresh_o(fresh_in[r+1][c]), .dest_o(dest_in[r+1][c]), .weight_o(w[r+1][c]),
                .valid_i(v[r][c]), .first_i(f[r][c]), .a_i(a[r][c]),
                .valid_o(v[r][c+1]), .first_o(f[r][c+1]), .a_o(a[r][c+1]),
                .sum_i(sum[r][c]), .sum_o(sum[r+1][c])
            );
        end
    end

    for (genvar c = 0; c < COLS; c++) begin : g_foot
        delay_line #(.WIDTH(1), .DEPTH(1)) visible (.clk, .rst, .d(v[ROWS-1][c]), .q(out_valid[c]));
        assign out_data[c*ACC_W+:ACC_W] = sum[ROWS][c];
    end
endmodule
